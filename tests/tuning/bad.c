/* A kernel that misbehaves as its FAULT says. */
void kernel(const float *restrict x, float *restrict y, int n)
{
#if FAULT == 1 /* wrong in one element */
    for (int i = 0; i < n; i++) y[i] = 2 * x[i] + (i == 3);
#elif FAULT == 2 /* never ends */
    for (volatile int i = 0;; i++) y[0] = i;
#elif FAULT == 3 /* crashes */
    *(volatile int *)8 = n;
#elif FAULT == 4 /* leaves the output as it was */
#else
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
#endif
}
