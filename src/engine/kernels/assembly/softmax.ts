/** Log-probs of rows of logits, their entropy, and their gradient. */
import { at, exponential, isImpossible, lanesBelow, larger, maxOfLanes, multiplyAdd, sumOfLanes, zero } from './vector';

/** Numbers summed in float32 before they are added to a float64 sum. Over a vocabulary of 150,000, float32 alone would lose the fifth digit. */
const CHUNK = 256;

@inline
function infinity(): v128 {
  return f32x4.splat(-Infinity);
}

/** Loads `x[first …]`, with -Infinity in lanes from `valid` on. */
@inline
function loadValid(x: usize, first: i32, valid: i32): v128 {
  const v = v128.load(at(x, first));
  return first + 4 <= valid ? v : v128.bitselect(v, infinity(), lanesBelow(first, valid));
}

export function logSoftmax(x: usize, ldx: i32, m: i32, n: i32, valid: i32, inverseTemperature: f32): void {
  for (let row = 0; row < m; row++) logSoftmaxRow(at(x, row * ldx), n, valid, f32x4.splat(inverseTemperature));
}

function logSoftmaxRow(x: usize, n: i32, valid: i32, factor: v128): void {
  let largest = infinity();
  for (let i = 0; i < valid; i += 4) largest = larger(largest, loadValid(x, i, valid));
  const shift = f32x4.splat(maxOfLanes(largest));
  let total: f64 = 0;
  for (let chunk = 0; chunk < valid; chunk += CHUNK) {
    let sum = zero();
    const end = min(valid, chunk + CHUNK);
    for (let i = chunk; i < end; i += 4) {
      // Subtract before multiplying: the difference is small for likely tokens, and so is the rounding error of the product.
      const v = f32x4.mul(f32x4.sub(loadValid(x, i, valid), shift), factor);
      v128.store(at(x, i), v);
      sum = f32x4.add(sum, exponential(v));
    }
    total += <f64>sumOfLanes(sum);
  }
  const logTotal = f32x4.splat(<f32>Math.log(total));
  let i = 0;
  for (; i < valid; i += 4) v128.store(at(x, i), f32x4.sub(v128.load(at(x, i)), logTotal));
  for (; i < n; i += 4) v128.store(at(x, i), infinity());
}

export function entropy(logProbs: usize, ldx: i32, m: i32, n: i32, out: usize): void {
  for (let row = 0; row < m; row++) {
    const x = at(logProbs, row * ldx);
    let total: f64 = 0;
    for (let chunk = 0; chunk < n; chunk += CHUNK) {
      let sum = zero();
      const end = min(n, chunk + CHUNK);
      for (let i = chunk; i < end; i += 4) {
        const v = v128.load(at(x, i));
        sum = f32x4.add(sum, unlessImpossible(v, f32x4.mul(exponential(v), v)));
      }
      total -= <f64>sumOfLanes(sum);
    }
    store<f32>(at(out, row), <f32>total);
  }
}

/** Makes 0 · -Infinity, which is NaN, 0 in lanes whose probability is 0. A NaN log-prob stays NaN. */
@inline
function unlessImpossible(logProb: v128, value: v128): v128 {
  return v128.andnot(value, isImpossible(logProb));
}

export function logSoftmaxBackward(
  logProbs: usize, ldx: i32, m: i32, n: i32, targets: usize, dLogProbs: usize, entropies: usize, dEntropies: usize, inverseTemperature: f32,
): void {
  for (let row = 0; row < m; row++) {
    const x = at(logProbs, row * ldx);
    const dLogProb = load<f32>(at(dLogProbs, row)) * inverseTemperature;
    if (dEntropies) {
      const dEntropy = load<f32>(at(dEntropies, row)) * inverseTemperature;
      withEntropy(x, n, f32x4.splat(-dLogProb), f32x4.splat(-dEntropy), f32x4.splat(load<f32>(at(entropies, row))));
    } else {
      withoutEntropy(x, n, f32x4.splat(-dLogProb));
    }
    const target = at(x, load<i32>(at(targets, row)));
    store<f32>(target, load<f32>(target) + dLogProb);
  }
}

/** -dLogProb · p */
function withoutEntropy(x: usize, n: i32, minusLogProb: v128): void {
  for (let i = 0; i < n; i += 4) v128.store(at(x, i), f32x4.mul(minusLogProb, exponential(v128.load(at(x, i)))));
}

/** -p · (dLogProb + dEntropy · (logp + H)) */
function withEntropy(x: usize, n: i32, minusLogProb: v128, minusEntropy: v128, ownEntropy: v128): void {
  for (let i = 0; i < n; i += 4) {
    const v = v128.load(at(x, i));
    const slope = multiplyAdd(minusEntropy, f32x4.add(v, ownEntropy), minusLogProb);
    v128.store(at(x, i), unlessImpossible(v, f32x4.mul(exponential(v), slope)));
  }
}
