	.text
	.file	"kernel.c"
	.globl	sum8                            # -- Begin function sum8
	.p2align	4, 0x90
	.type	sum8,@function
sum8:                                   # @sum8
	.cfi_startproc
# %bb.0:
	vmovss	(%rdi), %xmm0                   # xmm0 = mem[0],zero,zero,zero
	vaddss	28(%rdi), %xmm0, %xmm0
	retq
.Lfunc_end0:
	.size	sum8, .Lfunc_end0-sum8
	.cfi_endproc
                                        # -- End function
	.ident	"Debian clang version 14.0.6"
	.section	".note.GNU-stack","",@progbits
	.addrsig
