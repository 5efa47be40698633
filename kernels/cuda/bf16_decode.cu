// Decodes a stream of cuda-um-codec to bf16. The format is in crates/cuda-um-codec/src/format.rs.
//
// A block of threads decodes blocks of 4096 elements, 16 elements each thread. A thread finds the exponents of its escapes by the number
// of escapes before it. Words after the end of the stream are 0, so that damaged streams give arbitrary elements and touch nothing else.

#define THREADS 256
#define EACH 16
#define ELEMENTS (THREADS * EACH)
#define HEADER 8
#define ENTRY 3
#define RAW 16
#define WIDEST 5

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ u32 word_at(const u32 *words, u64 len, u64 at) { return at < len ? words[at] : 0; }

// The code at a bit of the part that begins at a word.
__device__ __forceinline__ u32 code_at(const u32 *words, u64 len, u64 start, u32 bit, u32 width) {
    u64 low = word_at(words, len, start + bit / 32), high = 0;
    if (bit % 32 + width > 32) high = word_at(words, len, start + bit / 32 + 1);
    return (u32)((low | high << 32) >> (bit % 32)) & ((1u << width) - 1);
}

__device__ __forceinline__ u32 byte_at(const u32 *words, u64 len, u64 start, u32 at) {
    return word_at(words, len, start + at / 4) >> (at % 4 * 8) & 0xff;
}

// The sum of the values of the threads before this one.
__device__ __forceinline__ u32 sum_before(u32 value, u32 *sums) {
    u32 sum = value;
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (u32 distance = 1; distance < THREADS; distance *= 2) {
        u32 other = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
        __syncthreads();
        sums[threadIdx.x] = sum += other;
        __syncthreads();
    }
    return sum - value;
}

__device__ __forceinline__ void decode_codes(const u32 *words, u64 len, u64 start, u32 how, u32 count, u16 *tile, u32 *sums) {
    u32 width = min(how & 0xff, WIDEST), base = how >> 8 & 0xff, escape = (1u << width) - 1;
    u64 codes_at = start + (count + 3) / 4, escapes_at = codes_at + (count * width + 31) / 32;
    u32 first = threadIdx.x * EACH, end = min(first + EACH, count), escapes = 0;
    if (width > 0)
        for (u32 i = first; i < end; i++) escapes += code_at(words, len, codes_at, i * width, width) == escape;
    u32 next = sum_before(escapes, sums);
    for (u32 i = first; i < end; i++) {
        u32 code = width > 0 ? code_at(words, len, codes_at, i * width, width) : 0;
        u32 exponent = base + code;
        if (width > 0 && code == escape) exponent = byte_at(words, len, escapes_at, next++);
        u32 rest = byte_at(words, len, start, i);
        tile[i] = (u16)((rest & 0x80) << 8 | (exponent & 0xff) << 7 | (rest & 0x7f));
    }
}

// `words` has `len` >= HEADER + ENTRY * blocks words.
extern "C" __global__ void __launch_bounds__(THREADS) bf16_decode(const u32 *words, u64 len, u16 *out, u64 elements) {
    __shared__ u16 tile[ELEMENTS];
    __shared__ u32 sums[THREADS];
    for (u64 first = (u64)blockIdx.x * ELEMENTS; first < elements; first += (u64)gridDim.x * ELEMENTS) {
        const u32 *entry = words + HEADER + first / ELEMENTS * ENTRY;
        u64 start = entry[0];
        u32 how = entry[1];
        u32 count = (u32)min((u64)ELEMENTS, elements - first);
        if ((how & 0xff) == RAW) {
            for (u32 i = threadIdx.x; i < count; i += THREADS) tile[i] = (u16)(word_at(words, len, start + i / 2) >> (i % 2 * 16));
        } else {
            decode_codes(words, len, start, how, count, tile, sums);
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < count; i += THREADS) out[first + i] = tile[i];
        __syncthreads();
    }
}
