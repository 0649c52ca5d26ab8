package dataset
import ("testing";"context";"fmt";"strings";"path/filepath")
func TestZZ(t *testing.T){
 dir:=t.TempDir()
 px:=pixels(10000*784)
 lab:=make([]byte,10000)
 write(t,filepath.Join(dir,"t10k-images-idx3-ubyte"),idx(px,10000,28,28))
 write(t,filepath.Join(dir,"t10k-labels-idx1-ubyte"),idx(lab,10000))
 var b strings.Builder
 for i:=0;i<10000;i++{ b.WriteString("1"); for j:=0;j<784;j++{fmt.Fprintf(&b,",%d",px[i*784+j])}; b.WriteString("\n")}
 write(t,filepath.Join(dir,"d.csv"),[]byte(b.String()))
 f:=make([]float32,10000*3072)
 write(t,filepath.Join(dir,"x.npy"),npy("<f4","10000, 3, 32, 32",f))
 write(t,filepath.Join(dir,"y.npy"),npy("|u1","10000,",lab))
 for _,n:=range []string{"","d.csv","x.npy"}{
  r:=testing.Benchmark(func(b *testing.B){ for range b.N { d,err:=Open(context.Background(),filepath.Join(dir,n),Options{}); if err!=nil{b.Fatal(err)}; d.Close()}})
  t.Log(n,r, r.MemBytes/uint64(max(r.N,1)))
 }
}
