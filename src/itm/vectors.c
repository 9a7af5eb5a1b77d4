/* SPDX-License-Identifier: BSD-3-Clause
 *
 * vectors.c - loads, stores and logs of the vectors of x86-64.  Elsewhere GCC's code calls none.
 */
#include "access.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* GCC's table, but that of logs, has each of them. */
#define ITM_VECTOR(attributes, type, name)                                                         \
	attributes ITM_LOAD(type, _ITM_R##name) attributes ITM_LOAD(type, _ITM_RaR##name)          \
	        attributes                                                                         \
	        ITM_LOAD(type, _ITM_RaW##name) attributes                                          \
	        ITM_LOAD(type, _ITM_RfW##name) attributes                                          \
	        ITM_STORE(type, _ITM_W##name) attributes                                           \
	        ITM_STORE(type, _ITM_WaR##name) attributes                                         \
	        ITM_STORE(type, _ITM_WaW##name) attributes                                         \
	        ITM_LOG(type, _ITM_L##name)

ITM_VECTOR(, __m64, M64)
ITM_VECTOR(, __m128, M128)
#define WITH_AVX __attribute__((target("avx")))
ITM_VECTOR(WITH_AVX, __m256, M256)
#endif
