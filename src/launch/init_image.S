/* SPDX-License-Identifier: Apache-2.0 */
	.section .rodata
	.global init_image, init_image_end
	.balign 16
init_image:
	.incbin INIT_PATH
init_image_end:
	.section .note.GNU-stack, "", @progbits
