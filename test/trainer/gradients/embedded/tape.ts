/** Reverse-mode differentiation of matrices in float64, as plainly as it can be written: what the embedded engine's gradients are held to. Slow. */

/** Row-major. `gradient` is null for what is frozen. */
export class Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float64Array;
  readonly gradient: Float64Array | null;

  constructor(rows: number, columns: number, data: ArrayLike<number> = new Float64Array(rows * columns), isFrozen = false) {
    if (data.length !== rows * columns) throw new RangeError(`Expected ${rows} x ${columns} numbers, got ${data.length}`);
    this.rows = rows;
    this.columns = columns;
    this.data = Float64Array.from(data);
    this.gradient = isFrozen ? null : new Float64Array(rows * columns);
  }
}

/** Remembers what was computed, and walks it back. */
export class Tape {
  readonly #steps: (() => void)[] = [];

  /** x [M, I] times the transpose of w [O, I]. */
  linear(x: Matrix, w: Matrix): Matrix {
    const [m, inputs, outputs] = [x.rows, x.columns, w.rows];
    const y = new Matrix(m, outputs);
    for (let i = 0; i < m; i++) {
      for (let o = 0; o < outputs; o++) {
        let sum = 0;
        for (let j = 0; j < inputs; j++) sum += x.data[i * inputs + j]! * w.data[o * inputs + j]!;
        y.data[i * outputs + o] = sum;
      }
    }
    this.#steps.push(() => {
      for (let i = 0; i < m; i++) {
        for (let o = 0; o < outputs; o++) {
          const d = y.gradient![i * outputs + o]!;
          if (x.gradient) for (let j = 0; j < inputs; j++) x.gradient[i * inputs + j]! += d * w.data[o * inputs + j]!;
          if (w.gradient) for (let j = 0; j < inputs; j++) w.gradient[o * inputs + j]! += d * x.data[i * inputs + j]!;
        }
      }
    });
    return y;
  }

  /** f of each number (or pair), with its partial derivatives. */
  #elementwise(inputs: readonly Matrix[], f: (...x: number[]) => number, derivatives: readonly ((...x: number[]) => number)[]): Matrix {
    const at = (i: number) => inputs.map(({ data }) => data[i]!);
    const y = new Matrix(inputs[0]!.rows, inputs[0]!.columns);
    for (let i = 0; i < y.data.length; i++) y.data[i] = f(...at(i));
    this.#steps.push(() => {
      for (const [n, { gradient }] of inputs.entries()) {
        if (gradient) for (let i = 0; i < gradient.length; i++) gradient[i]! += y.gradient![i]! * derivatives[n]!(...at(i));
      }
    });
    return y;
  }

  add(a: Matrix, b: Matrix): Matrix {
    const one = () => 1;
    return this.#elementwise([a, b], (x, y) => x + y, [one, one]);
  }

  multiply(a: Matrix, b: Matrix): Matrix {
    return this.#elementwise([a, b], (x, y) => x * y, [(_, y) => y, (x) => x]);
  }

  scale(a: Matrix, factor: number): Matrix {
    return this.#elementwise([a], (x) => x * factor, [() => factor]);
  }

  silu(a: Matrix): Matrix {
    const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
    return this.#elementwise([a], (x) => x * sigmoid(x), [(x) => sigmoid(x) * (1 + x * (1 - sigmoid(x)))]);
  }

  /** Groups of `size` numbers of each row, divided by their root mean square and multiplied by `weight` [size]. */
  normalise(x: Matrix, weight: ArrayLike<number>, epsilon: number): Matrix {
    const size = weight.length;
    const y = new Matrix(x.rows, x.columns);
    const inverses = Array.from({ length: x.data.length / size }, (_, g) => {
      const squares = x.data.subarray(g * size, (g + 1) * size).reduce((sum, value) => sum + value * value, 0);
      return 1 / Math.sqrt(squares / size + epsilon);
    });
    for (let i = 0; i < y.data.length; i++) y.data[i] = x.data[i]! * inverses[Math.floor(i / size)]! * weight[i % size]!;
    this.#steps.push(() => {
      for (const [g, inverse] of inverses.entries()) {
        let along = 0;
        for (let i = 0; i < size; i++) along += y.gradient![g * size + i]! * weight[i]! * x.data[g * size + i]!;
        for (let i = 0; i < size; i++) {
          const at = g * size + i;
          x.gradient![at]! += inverse * (y.gradient![at]! * weight[i]! - (x.data[at]! * inverse * inverse * along) / size);
        }
      }
    });
    return y;
  }

  /** Turns each head of `size` numbers by its row's position: the first half against the second. Rows are positions 0, 1, ... */
  rotate(x: Matrix, size: number, theta: number): Matrix {
    const y = new Matrix(x.rows, x.columns);
    const half = size / 2;
    const turn = (from: Float64Array, to: Float64Array, direction: 1 | -1) => {
      for (let row = 0; row < x.rows; row++) {
        for (let start = row * x.columns; start < (row + 1) * x.columns; start += size) {
          for (let i = 0; i < half; i++) {
            const angle = direction * row * theta ** ((-2 * i) / size);
            const [a, b] = [from[start + i]!, from[start + half + i]!];
            to[start + i]! += a * Math.cos(angle) - b * Math.sin(angle);
            to[start + half + i]! += b * Math.cos(angle) + a * Math.sin(angle);
          }
        }
      }
    };
    turn(x.data, y.data, 1);
    this.#steps.push(() => turn(y.gradient!, x.gradient!, -1));
    return y;
  }

  /** Causal attention of one sequence. q [T, heads · size], k and v [T, kvHeads · size]; neighbouring heads share a key head. */
  attention(
    q: Matrix,
    k: Matrix,
    v: Matrix,
    { heads, kvHeads, size }: { readonly heads: number; readonly kvHeads: number; readonly size: number },
  ): Matrix {
    const y = new Matrix(q.rows, q.columns);
    const weights = new Map<string, Float64Array>();
    const dot = (a: Float64Array, i: number, b: Float64Array, j: number) => {
      let sum = 0;
      for (let c = 0; c < size; c++) sum += a[i + c]! * b[j + c]!;
      return sum;
    };
    const each = (visit: (own: number, other: (position: number) => number, row: number, key: string) => void) => {
      for (let row = 0; row < q.rows; row++) {
        for (let head = 0; head < heads; head++) {
          const shared = Math.floor((head * kvHeads) / heads);
          visit(row * q.columns + head * size, (position) => position * k.columns + shared * size, row, `${row} ${head}`);
        }
      }
    };
    const factor = 1 / Math.sqrt(size);
    each((own, other, row, key) => {
      const scores = Float64Array.from({ length: row + 1 }, (_, position) => factor * dot(q.data, own, k.data, other(position)));
      const exps = scores.map((score) => Math.exp(score - Math.max(...scores)));
      const total = exps.reduce((sum, x) => sum + x, 0);
      const p = exps.map((x) => x / total);
      weights.set(key, p);
      for (let position = 0; position <= row; position++) {
        for (let c = 0; c < size; c++) y.data[own + c]! += p[position]! * v.data[other(position) + c]!;
      }
    });
    this.#steps.push(() => {
      each((own, other, row, key) => {
        const p = weights.get(key)!;
        const dp = p.map((_, position) => dot(y.gradient!, own, v.data, other(position)));
        const mean = dp.reduce((sum, d, position) => sum + d * p[position]!, 0);
        for (let position = 0; position <= row; position++) {
          const at = other(position);
          const dScore = factor * p[position]! * (dp[position]! - mean);
          for (let c = 0; c < size; c++) {
            q.gradient![own + c]! += dScore * k.data[at + c]!;
            k.gradient![at + c]! += dScore * q.data[own + c]!;
            v.gradient![at + c]! += p[position]! * y.gradient![own + c]!;
          }
        }
      });
    });
    return y;
  }

  /** The rows at `places`. */
  rows(x: Matrix, places: readonly number[]): Matrix {
    const n = x.columns;
    const y = new Matrix(places.length, n);
    for (const [i, place] of places.entries()) y.data.set(x.data.subarray(place * n, (place + 1) * n), i * n);
    this.#steps.push(() => {
      if (!x.gradient) return;
      for (const [i, place] of places.entries()) for (let j = 0; j < n; j++) x.gradient[place * n + j]! += y.gradient![i * n + j]!;
    });
    return y;
  }

  /** Of each row. */
  logSoftmax(x: Matrix): Matrix {
    const n = x.columns;
    const y = new Matrix(x.rows, n);
    for (let start = 0; start < x.data.length; start += n) {
      const row = x.data.subarray(start, start + n);
      const most = row.reduce((a, b) => Math.max(a, b));
      const logTotal = most + Math.log(row.reduce((sum, value) => sum + Math.exp(value - most), 0));
      for (let j = 0; j < n; j++) y.data[start + j] = row[j]! - logTotal;
    }
    this.#steps.push(() => {
      for (let start = 0; start < x.data.length; start += n) {
        const total = y.gradient!.subarray(start, start + n).reduce((sum, d) => sum + d, 0);
        for (let j = start; j < start + n; j++) x.gradient![j]! += y.gradient![j]! - Math.exp(y.data[j]!) * total;
      }
    });
    return y;
  }

  /** Carries the gradients in the results back to what they were computed from. */
  backward(): void {
    for (const step of this.#steps.toReversed()) step();
  }
}
