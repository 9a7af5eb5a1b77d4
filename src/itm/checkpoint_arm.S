/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checkpoint_arm.S - _ITM_beginTransaction() and its second return, for aarch64: the registers that
 * a called function preserves, in the layout of struct itm_checkpoint.
 */
	.text
	.hidden itm_begin
	.globl _ITM_beginTransaction
	.type _ITM_beginTransaction, %function
	.p2align 4
_ITM_beginTransaction:
	.cfi_startproc
	mov x9, sp
	stp x29, x30, [sp, #-192]!
	.cfi_adjust_cfa_offset 192
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
	ldr x10, [sp] /* the caller's frame pointer */
	stp x9, x30, [sp, #16]
	stp x19, x20, [sp, #32]
	stp x21, x22, [sp, #48]
	stp x23, x24, [sp, #64]
	stp x25, x26, [sp, #80]
	stp x27, x28, [sp, #96]
	str x10, [sp, #112]
	stp d8, d9, [sp, #120]
	stp d10, d11, [sp, #136]
	stp d12, d13, [sp, #152]
	stp d14, d15, [sp, #168]
	add x1, sp, #16
	bl itm_begin
	ldp x29, x30, [sp], #192
	.cfi_adjust_cfa_offset -192
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size _ITM_beginTransaction, . - _ITM_beginTransaction

	.globl itm_jump
	.hidden itm_jump
	.type itm_jump, %function
	.p2align 4
itm_jump:
	.cfi_startproc
	ldp x9, x30, [x1]
	ldp x19, x20, [x1, #16]
	ldp x21, x22, [x1, #32]
	ldp x23, x24, [x1, #48]
	ldp x25, x26, [x1, #64]
	ldp x27, x28, [x1, #80]
	ldr x29, [x1, #96]
	ldp d8, d9, [x1, #104]
	ldp d10, d11, [x1, #120]
	ldp d12, d13, [x1, #136]
	ldp d14, d15, [x1, #152]
	mov sp, x9
	ret
	.cfi_endproc
	.size itm_jump, . - itm_jump

	.section .note.GNU-stack, "", %progbits
