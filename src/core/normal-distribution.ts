/** The standard normal distribution, accurate to 1e-14 or better. */

/** Probability of a value below `z`. */
export function normalCdf(z: number): number {
  return erfc(-z / Math.SQRT2) / 2;
}

/** The value below which lies the share `p`, from 0 to 1. Bisection is enough here: nothing calls it in a loop. */
export function normalQuantile(p: number): number {
  if (p <= 0) return -Infinity;
  if (p >= 1) return Infinity;
  let low = -40;
  let high = 40;
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Probability that the square of a standard normal value is at least `x`: chi-square with one degree of freedom. */
export function chiSquareTail(x: number): number {
  return erfc(Math.sqrt(Math.max(0, x) / 2));
}

/** The complementary error function: Taylor's series near 0, Lentz's evaluation of the continued fraction beyond. */
function erfc(x: number): number {
  if (x < 0) return 2 - erfc(-x);
  return x < 2 ? 1 - erfSeries(x) : erfcFraction(x);
}

function erfSeries(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

function erfcFraction(x: number): number {
  let f = x;
  let c = x;
  let d = 0;
  for (let n = 1; n < 500; n++) {
    d = 1 / (x + (n / 2) * d);
    c = x + n / 2 / c;
    const step = c * d;
    f *= step;
    if (Math.abs(step - 1) < 1e-16) break;
  }
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / f;
}
