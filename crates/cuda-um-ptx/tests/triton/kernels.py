# The kernels whose PTX (Triton 3.5.1, sm_80) and answers (an H200) are beside this file.
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget

@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B); m = i < n
    tl.store(o+i, tl.load(x+i, mask=m) + tl.load(y+i, mask=m), mask=m)

@triton.jit
def softmax(x, o, stride, n, B: tl.constexpr):
    r = tl.program_id(0); c = tl.arange(0, B); m = c < n
    v = tl.load(x + r*stride + c, mask=m, other=-float('inf'))
    v = tl.exp(v - tl.max(v, axis=0)); tl.store(o + r*stride + c, v / tl.sum(v, axis=0), mask=m)

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0)*BM + tl.arange(0, BM); rn = tl.program_id(1)*BN + tl.arange(0, BN); rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None]*K + (rk+k)[None, :], mask=(rm[:, None] < M) & ((rk+k)[None, :] < K), other=0.0)
        y = tl.load(b + (rk+k)[:, None]*N + rn[None, :], mask=((rk+k)[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
    tl.store(c + rm[:, None]*N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))

@triton.jit
def histogram(x, o, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B)
    h = tl.histogram(tl.load(x+i, mask=i < n, other=0), BINS)
    tl.atomic_add(o + tl.arange(0, BINS), h)

@triton.jit
def layernorm(x, w, b, o, stride, n, eps, B: tl.constexpr):
    r = tl.program_id(0); c = tl.arange(0, B); m = c < n
    v = tl.load(x + r*stride + c, mask=m, other=0.0)
    mean = tl.sum(v, axis=0)/n; d = tl.where(m, v-mean, 0.0); var = tl.sum(d*d, axis=0)/n
    y = d*tl.rsqrt(var+eps)*tl.load(w+c, mask=m) + tl.load(b+c, mask=m); tl.store(o + r*stride + c, y, mask=m)

@triton.jit
def cumsum(x, o, n, B: tl.constexpr):
    c = tl.arange(0, B); m = c < n
    tl.store(o+c, tl.cumsum(tl.load(x+c, mask=m, other=0), axis=0), mask=m)

@triton.jit
def gelu(x, o, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B); m = i < n
    v = tl.load(x+i, mask=m).to(tl.float32)
    tl.store(o+i, (0.5*v*(1+tl.erf(v*0.7071067811865476))).to(tl.float16), mask=m)

@triton.jit
def attention(q, k, v, o, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0)*BM + tl.arange(0, BM); rd = tl.arange(0, D)
    qq = tl.load(q + rm[:, None]*D + rd[None, :], mask=rm[:, None] < n, other=0.0)
    mi = tl.full((BM,), -float('inf'), tl.float32); l = tl.zeros((BM,), tl.float32); acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, n, BN):
        rn = s + tl.arange(0, BN)
        kk = tl.load(k + rn[None, :]*D + rd[:, None], mask=rn[None, :] < n, other=0.0)
        p = tl.where(rn[None, :] < n, tl.dot(qq, kk)*scale, -float('inf'))
        mn = tl.maximum(mi, tl.max(p, axis=1)); e = tl.exp(p - mn[:, None]); a = tl.exp(mi - mn)
        vv = tl.load(v + rn[:, None]*D + rd[None, :], mask=rn[:, None] < n, other=0.0)
        acc = acc*a[:, None] + tl.dot(e.to(tl.float16), vv); l = l*a + tl.sum(e, axis=1); mi = mn
    tl.store(o + rm[:, None]*D + rd[None, :], (acc/l[:, None]).to(tl.float16), mask=rm[:, None] < n)

P="*fp32"; H="*fp16"; I="*i32"; i="i32"
jobs=[(add,dict(x=P,y=P,o=P,n=i),dict(B=1024)),(softmax,dict(x=P,o=P,stride=i,n=i),dict(B=1024)),
 (matmul,dict(a=H,b=H,c=P,M=i,N=i,K=i),dict(BM=64,BN=64,BK=32)),(histogram,dict(x=I,o=I,n=i),dict(B=1024,BINS=128)),
 (layernorm,dict(x=P,w=P,b=P,o=P,stride=i,n=i,eps="fp32"),dict(B=1024)),(cumsum,dict(x=I,o=I,n=i),dict(B=1024)),
 (gelu,dict(x=H,o=H,n=i),dict(B=1024)),(attention,dict(q=H,k=H,v=H,o=H,n=i,scale="fp32"),dict(D=64,BM=64,BN=32))]
for f,s,c in jobs:
    sig=dict(s); sig.update({k:"constexpr" for k in c})
    k=triton.compile(ASTSource(f,sig,constexprs=c),target=GPUTarget("cuda",80,32))
    open(f'{f.__name__}.ptx','w').write(k.asm['ptx']); print(f.__name__, len(k.asm['ptx'].split('\n')), k.metadata.shared, k.metadata.num_warps)
