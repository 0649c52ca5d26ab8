package certify
import ("testing";"fmt";"os";"time";"strings")
func readShared(t testing.TB) (out []Votes) {
 b,err:=os.ReadFile("../../../shared/data/cifar10-votes/resnet110-sigma0.25-n100000.txt")
 if err!=nil {t.Skip(err)}
 for _,l:=range strings.Split(strings.TrimSpace(string(b)),"\n") {
  v:=Votes{Counts:make([]int64,10)}
  f:=strings.Fields(l)
  for i:=range v.Counts { fmt.Sscan(f[i],&v.Counts[i]); v.N+=v.Counts[i] }
  fmt.Sscan(f[10],&v.Label)
  out=append(out,v)
 }
 return
}
func TestReal(t *testing.T){
 vs:=readShared(t)
 for _,k:=range []MarginKind{SecondMargin,FirstMargin}{
 cc,_:=NewVoteCertifier(VoteParams{Method:Margin,Alpha:.001,Sigma:.25,Class:Label,Margin:k})
 bb,_:=NewVoteCertifier(VoteParams{Method:Bonferroni,Alpha:.001,Sigma:.25,Class:Label,Margin:k})
 for r:=0;r<2;r++ {
 t0:=time.Now(); calls=0
 var worst time.Duration
 var sum,sumb float64; same:=0
 for _,v:=range vs { t1:=time.Now(); a:=v.Counts[v.Label]; 
   if v.N!=100000 { continue }
   x:=cc.compute(tally{n:v.N,a:a,b:runnerUp(v.Counts,v.Label)}); 
   y:=bb.bound(tally{n:v.N,a:a,b:runnerUp(v.Counts,v.Label)})
   if y.margin>0 { sum+=x.margin; sumb+=y.margin; if x.margin==y.margin {same++; if same<9 {fmt.Println(v)}} }
  if d:=time.Since(t1);d>worst {worst=d} }
 fmt.Println(k,len(vs),time.Since(t0),worst,calls,sum,sumb,same)
 }}
}
