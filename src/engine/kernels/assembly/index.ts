/** Exports of the kernels: the interface of `kernels.ts`, in AssemblyScript. */
export { attention } from './attention';
export { attentionBackward } from './attention-backward';
export { readGradientCache, writeCache } from './cache';
export { addTo, rotate, siluMultiply, siluMultiplyBackward } from './elementwise';
export { gemm, gemmBfloat16 } from './gemm';
export { gemmTransposed } from './gemm-transposed';
export { headNorm, headNormBackward, rmsNorm, rmsNormBackward } from './norms';
export { adam, allFinite, sumOfSquares } from './optimizer';
export { gatherRows, gatherRowsBfloat16, pack, packBfloat16, repackTransposed, repackTransposedBfloat16, unpackRows } from './packing';
export { argmax, countAbove, pick } from './sampling';
export { entropy, logSoftmax, logSoftmaxBackward } from './softmax';
