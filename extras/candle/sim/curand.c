/* libcurand for tests over the simulator: generators that generate nothing. */
enum { TYPE_ERROR = 103 };

int curandCreateGenerator(void **generator, int type) {
    (void)type;
    *generator = (void *)1;
    return 0;
}
int curandDestroyGenerator(void *generator) { return generator == 0; }
int curandSetStream(void *generator, void *stream) { return (void)stream, generator == 0; }
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed) { return (void)seed, generator == 0; }

#define MISSING(name)                                                                                                                          \
    int name(void) { return TYPE_ERROR; }
MISSING(curandGenerateUniform)
MISSING(curandGenerateUniformDouble)
MISSING(curandGenerateNormal)
MISSING(curandGenerateNormalDouble)
