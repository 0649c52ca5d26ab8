package serve

import (
	"net"
	"sync"
	"time"
)

// spareConnections is the number of connections that the server accepts in addition to Config.Connections. With these
// connections, the server answers health requests even if all other connections have running requests.
const spareConnections = 16

// connections limits the number of open connections. If there is no room, a new connection replaces the connection that
// has been without a request for the longest time. Idle clients and clients that send nothing therefore cannot keep
// other clients out.
type connections struct {
	limit int
	mu    sync.Mutex
	open  map[string]*connection // key: route (routeOf)
}

// connection is an open connection. The mutex all.mu guards the fields 'requests' and 'since'.
type connection struct {
	net.Conn
	route string
	all   *connections

	requests int       // number of running requests
	since    time.Time // end of the last request, or start of the connection if it had no request
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[string]*connection{}}
}

// routeOf identifies a connection by its two addresses.
func routeOf(local, remote net.Addr) string { return local.String() + " " + remote.String() }

// limitedListener is a listener with a limit on the number of open connections.
type limitedListener struct {
	net.Listener
	all *connections
}

// Accept accepts the next connection for which there is room.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.all.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

// admit adds a connection to the open connections. If there is no room, it closes the connection that has been without
// a request for the longest time. If there is no room and all connections have running requests, it returns nil.
func (c *connections) admit(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.limit {
		var oldest *connection
		for _, o := range c.open {
			if o.requests == 0 && (oldest == nil || o.since.Before(oldest.since)) {
				oldest = o
			}
		}
		if oldest == nil {
			return nil
		}
		delete(c.open, oldest.route)
		_ = oldest.Conn.Close()
	}
	n := &connection{Conn: conn, route: routeOf(conn.LocalAddr(), conn.RemoteAddr()), all: c, since: time.Now()}
	c.open[n.route] = n
	return n
}

// Close closes the connection.
func (n *connection) Close() error {
	n.all.mu.Lock()
	if n.all.open[n.route] == n {
		delete(n.all.open, n.route)
	}
	n.all.mu.Unlock()
	return n.Conn.Close()
}

// begin records that a request of a connection is running. The caller must call the returned function 'end' when the
// request ends.
func (c *connections) begin(route string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.open[route]
	if n == nil { // another connection has just replaced this connection
		return func() {}
	}
	n.requests++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		n.requests--
		n.since = time.Now()
	}
}
