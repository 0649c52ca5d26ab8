package certify
import ("testing";"fmt";"time")
func TestTmp(t *testing.T){
 for _,c:=range [][3]int64{{100,100,0},{100,99,0},{100,90,5},{100,80,15},{1000,950,30},{1000,1000,0},{1000,970,30},{1000,500,100},{100000,93642,5279},{100000,99999,1},{100000,49328,36952},{100000,91506,8333},{100000,100000,0},{100000,70000,10000}} {
  for _,k:=range []MarginKind{SecondMargin,FirstMargin}{
  cc,_:=NewVoteCertifier(VoteParams{Method:Margin,Alpha:.001,Sigma:.25,Margin:k})
  t0:=time.Now()
  calls=0
  b:=cc.bound(tally{n:c[0],a:c[1],b:c[2]})
  d:=time.Since(t0)
  t0=time.Now()
  cc.margin(tally{n:c[0],a:c[1],b:c[2]})
  fmt.Println(c,k,b.margin,bonferroni(k,c[1],c[2],c[0],.001).margin,"calls",calls,"located",dbgL,d,"again",time.Since(t0))
 }}
}
