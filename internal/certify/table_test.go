package certify

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/choice"
)

// The function 'names' returns all methods of a table.
func names[M ~string](rows []Row[M]) []M {
	var out []M
	for _, r := range rows {
		out = append(out, r.Name)
	}
	return out
}

// soundOnes returns the names of the sound methods.
func soundOnes[M ~string](rows []Row[M]) []M {
	var out []M
	for _, r := range rows {
		if r.Sound {
			out = append(out, r.Name)
		}
	}
	return out
}

// checkText parses and formats each name of a table, as text and as JSON.
func checkText[M interface {
	~string
	encoding.TextMarshaler
}, P interface {
	*M
	encoding.TextUnmarshaler
}](t *testing.T, rows []Row[M], want string) {
	t.Helper()
	var known []string
	for _, r := range rows {
		known = append(known, string(r.Name))
		if r.What == "" || strings.Contains(r.What, "\n") {
			t.Errorf("%s: the help is %q, want one line", r.Name, r.What)
		}
		var read M
		text, err := r.Name.MarshalText()
		if err == nil {
			err = P(&read).UnmarshalText(text)
		}
		if err != nil || read != r.Name || string(text) != string(r.Name) {
			t.Errorf("%s is written as %s and read as %s (%v)", r.Name, text, read, err)
		}
		var object struct{ Method M }
		data, err := json.Marshal(struct{ Method M }{r.Name})
		if err == nil {
			err = json.Unmarshal(data, &object)
		}
		if err != nil || object.Method != r.Name || string(data) != `{"Method":"`+string(r.Name)+`"}` {
			t.Errorf("%s as JSON is %s, read as %s (%v)", r.Name, data, object.Method, err)
		}
	}
	if got := strings.Join(known, " "); got != want {
		t.Errorf("the table has %s, want %s", got, want)
	}
	read := rows[0].Name
	if err := P(&read).UnmarshalText([]byte("cohen")); err == nil || !strings.Contains(err.Error(), `"cohen": want `+choice.Or(known)) || read != rows[0].Name {
		t.Errorf("an unknown name: %v, want one that lists the known", err)
	}
	if err := P(&read).UnmarshalText(nil); err != nil || read != "" {
		t.Errorf("no name is read as %q (%v), want as not given", read, err)
	}
}

// The names of the methods appear in flags and files. New names may be added, but existing names must not change.
func TestTables(t *testing.T) {
	checkText(t, Classes(), "predicted label")
	checkText(t, MarginKinds(), "second first")
	checkText(t, VoteMethods(), "margin bonferroni clopper-pearson bonferroni-classes moutaouakil")
	checkText(t, MeanBounds(), "betting hoeffding bernstein prpl-eb chernoff star prpl-eb-sequence moutaouakil-bernstein moutaouakil-sequence")
	checkText(t, Combines(), "directed projected bonferroni bonferroni-classes taylor")
	checkText(t, ConfidenceMethods(), "tangent standard cdf")
	checkText(t, Bands(), "binomial dkw")
}

func TestSound(t *testing.T) {
	if got, want := soundOnes(VoteMethods()), []VoteMethod{ExactMargin, Bonferroni, ClopperPearson, BonferroniClasses}; !reflect.DeepEqual(got, want) {
		t.Errorf("sound vote methods are %v, want %v", got, want)
	}
	if got, want := soundOnes(Combines()), []Combine{Directed, Projected, BonferroniScores, BonferroniClassScores}; !reflect.DeepEqual(got, want) {
		t.Errorf("sound combinations are %v, want %v", got, want)
	}
	if got, want := soundOnes(MeanBounds()), []MeanBound{Betting, Hoeffding, Bernstein, PrPlEB, Chernoff, STaR, PrPlSequence}; !reflect.DeepEqual(got, want) {
		t.Errorf("sound bounds are %v, want %v", got, want)
	}
	if VoteMethod("cohen").Sound() || Combine("x").Sound() || MeanBound("x").Sound() {
		t.Error("an unknown method is called sound")
	}
}

func TestUnknownMethods(t *testing.T) {
	ok := Target{Alpha: 0.01, Sigma: 1}
	for _, p := range []VoteParams{{Target: ok, Method: "x"}, {Target: Target{Alpha: 0.01, Sigma: 1, Class: "x"}}, {Target: Target{Alpha: 0.01, Sigma: 1, Margin: "x"}}} {
		if _, err := NewVoteCertifier(p); err == nil || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%+v: error %v", p, err)
		}
	}
	for _, p := range []ScoreParams{
		{Target: ok, Bound: "x"}, {Target: ok, Combine: "x"}, {Target: ok, Confidence: ConfidenceParams{Method: "x"}},
		{Target: ok, Confidence: ConfidenceParams{Band: "x"}}, {Target: ok, Confidence: ConfidenceParams{Bound: "x"}},
	} {
		if _, err := NewScoreCertifier(p); err == nil || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%+v: error %v", p, err)
		}
	}
}

// A certificate names its method even if the method is the default. The certificate of an unsound method says that the
// method is not sound. For votes, the test tries both kinds of margin.
func TestCertificateSaysItsMethod(t *testing.T) {
	votes := Votes{Label: 1, N: 1000, Counts: []int64{20, 960, 20}}
	for _, row := range VoteMethods() {
		for _, kind := range names(MarginKinds()) {
			p := VoteParams{Target: Target{Margin: kind, Class: Label, Alpha: 0.01, Level: 0.009, Sigma: 0.5, Arithmetic: Exact}, Method: row.Name}
			if kind == FirstMargin {
				p.Lipschitz = 3
			}
			cert, err := mustVotes(t, p).Certify(votes)
			if err != nil {
				t.Fatal(err)
			}
			got := Certificate{Method: cert.Method, Sound: cert.Sound, MarginKind: cert.MarginKind, Alpha: cert.Alpha,
				Sigma: cert.Sigma, Lipschitz: cert.Lipschitz, Arithmetic: cert.Arithmetic, N: cert.N}
			want := Certificate{Method: string(row.Name), Sound: row.Sound, MarginKind: kind, Alpha: 0.01,
				Sigma: 0.5, Lipschitz: p.Lipschitz, Arithmetic: Exact, N: 1000}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	}
	for _, row := range Combines() {
		a := startScores(t, ScoreParams{Target: Target{Alpha: 0.01, Sigma: 1}, Bound: Bernstein, Combine: row.Name}, 1, 2, 2)
		feed(t, a, []float32{1, 0}, []float32{1, 0, 1, 0})
		cert, err := a.Certificate()
		if err != nil || cert.Sound != row.Sound || cert.Method != "bernstein+"+string(row.Name) || cert.MarginKind != SecondMargin || cert.Arithmetic != Idealised {
			t.Errorf("%+v (%v), want %s to be sound: %v", cert, err, row.Name, row.Sound)
		}
	}
	line, err := json.Marshal(Certificate{MarginKind: FirstMargin, Stop: StopRule{stopAtRadius, 0.5}, Arithmetic: Exact})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"index":0,"label":0,"prediction":0,"correct":false,"radius":0,"norm":"l2","margin":0,"method":"","margin_kind":"first","alpha":0,"sigma":0,"n":0,"stop":"radius\u003e=0.5","sound":false,"arithmetic":"exact"}`
	if string(line) != want {
		t.Errorf("line of certificates.jsonl:\n%s, want\n%s", line, want)
	}
	var read Certificate
	if err := json.Unmarshal(line, &read); err != nil || read.Stop != (StopRule{stopAtRadius, 0.5}) || read.Arithmetic != Exact {
		t.Errorf("read as %+v (%v)", read, err)
	}
}

// Exact noise is drawn from random words of finite length, so its probabilities are rounded. This rounding uses up a
// part of α. The field Level is the rest of α, and the bounds may use only Level. A certifier for exact noise with
// Level = 0 must be refused.
func TestExactNeedsALevel(t *testing.T) {
	target := Target{Class: Label, Alpha: 0.01, Sigma: 0.5, Arithmetic: Exact}
	if _, err := NewVoteCertifier(VoteParams{Target: target}); err == nil || !strings.Contains(err.Error(), "all of alpha") {
		t.Errorf("votes: error %v", err)
	}
	if _, err := NewScoreCertifier(ScoreParams{Target: target}); err == nil || !strings.Contains(err.Error(), "all of alpha") {
		t.Errorf("scores: error %v", err)
	}
	// Every bound must equal the bound for idealised noise with Alpha = 0.002, the Level of the exact noise.
	target.Level = 0.002
	ideal := Target{Class: Label, Alpha: 0.002, Sigma: 0.5}
	votes := Votes{Label: 1, N: 1000, Counts: []int64{20, 960, 20}}
	for _, row := range VoteMethods() {
		got, err := mustVotes(t, VoteParams{Target: target, Method: row.Name}).Certify(votes)
		want, err2 := mustVotes(t, VoteParams{Target: ideal, Method: row.Name}).Certify(votes)
		if err != nil || err2 != nil || got.Radius != want.Radius || got.Alpha != 0.01 || want.Alpha != 0.002 {
			t.Errorf("%s: %+v (%v), want the radius of %+v (%v)", row.Name, got, err, want, err2)
		}
	}
	for _, rule := range []string{"radius>=0.5", "precision=0.2"} {
		r, err := ParseStop(rule)
		if err != nil {
			t.Fatal(err)
		}
		got, err := NewStopping(VoteParams{Target: target}, r, 10_000)
		want, err2 := NewStopping(VoteParams{Target: ideal}, r, 10_000)
		if err != nil || err2 != nil || !reflect.DeepEqual(got.Checkpoints(), want.Checkpoints()) {
			t.Errorf("%s: checkpoints %v (%v), want %v (%v)", rule, got, err, want, err2)
		}
	}
	for _, row := range ConfidenceMethods() {
		bounds := func(target Target) (Certificate, []ConfidenceBound) {
			a := startScores(t, ScoreParams{Target: target, Confidence: ConfidenceParams{Radii: []float64{0.1}, Method: row.Name}}, 50, 2000, 2)
			var selection, estimation []float32
			for i := range 2050 {
				p := 0.9 + 0.1*float32(i%10)/10
				if i < 50 {
					selection = append(selection, p, 1-p)
				} else {
					estimation = append(estimation, p, 1-p)
				}
			}
			feed(t, a, selection, estimation)
			cert, err := a.Certificate()
			if err != nil {
				t.Fatal(err)
			}
			return cert, a.Confidence(cert)
		}
		got, gotBounds := bounds(target)
		want, wantBounds := bounds(ideal)
		if len(gotBounds) != 1 || len(wantBounds) != 1 {
			t.Fatalf("%s: %d and %d bounds", row.Name, len(gotBounds), len(wantBounds))
		}
		if got.Radius != want.Radius || gotBounds[0].Lower != wantBounds[0].Lower || gotBounds[0].Upper != wantBounds[0].Upper {
			t.Errorf("%s: %+v %+v, want %+v %+v", row.Name, got, gotBounds, want, wantBounds)
		}
	}
}

func TestArithmetic(t *testing.T) {
	var zero Certificate
	if line, err := json.Marshal(zero); err != nil || !strings.Contains(string(line), `"arithmetic":"idealised"`) {
		t.Errorf("the zero arithmetic is %s (%v)", line, err)
	}
	for _, a := range []Arithmetic{Idealised, Exact} {
		var read Arithmetic = -1
		if err := read.UnmarshalText([]byte(a.String())); err != nil || read != a {
			t.Errorf("%v is read as %v (%v)", a, read, err)
		}
	}
	if err := new(Arithmetic).UnmarshalText([]byte("float")); err == nil || !strings.Contains(err.Error(), `arithmetic "float": want idealised or exact`) {
		t.Errorf("an unknown arithmetic: %v", err)
	}
}
