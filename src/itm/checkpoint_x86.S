/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checkpoint_x86.S - _ITM_beginTransaction() and its second return, for x86-64: the registers that
 * a called function preserves, in the layout of struct itm_checkpoint.
 */
	.text
	.hidden itm_begin
	.globl _ITM_beginTransaction
	.type _ITM_beginTransaction, @function
	.p2align 4
_ITM_beginTransaction:
	.cfi_startproc
	leaq 8(%rsp), %rax
	movq (%rsp), %rdx
	subq $72, %rsp /* the call below finds the stack aligned to 16 */
	.cfi_adjust_cfa_offset 72
	movq %rax, 0(%rsp)
	movq %rdx, 8(%rsp)
	movq %rbx, 16(%rsp)
	movq %rbp, 24(%rsp)
	movq %r12, 32(%rsp)
	movq %r13, 40(%rsp)
	movq %r14, 48(%rsp)
	movq %r15, 56(%rsp)
	movq %rsp, %rsi
	call itm_begin
	addq $72, %rsp
	.cfi_adjust_cfa_offset -72
	ret
	.cfi_endproc
	.size _ITM_beginTransaction, . - _ITM_beginTransaction

	.globl itm_jump
	.hidden itm_jump
	.type itm_jump, @function
	.p2align 4
itm_jump:
	.cfi_startproc
	movl %edi, %eax
	movq 16(%rsi), %rbx
	movq 24(%rsi), %rbp
	movq 32(%rsi), %r12
	movq 40(%rsi), %r13
	movq 48(%rsi), %r14
	movq 56(%rsi), %r15
	movq 8(%rsi), %rdx
	movq 0(%rsi), %rsp
	jmp *%rdx
	.cfi_endproc
	.size itm_jump, . - itm_jump

	.section .note.GNU-stack, "", @progbits
