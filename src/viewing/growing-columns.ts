/** Columns of numbers that grow, and codes of names: 100,000 rollouts take some megabytes. */

/** A column of numbers; missing values are NaN. */
export class NumberColumn {
  #values = new Float64Array(64).fill(NaN);

  set(row: number, value: number): void {
    if (row >= this.#values.length) {
      const longer = new Float64Array(Math.max(row + 1, this.#values.length * 2)).fill(NaN, this.#values.length);
      longer.set(this.#values);
      this.#values = longer;
    }
    this.#values[row] = value;
  }

  at(row: number): number {
    return row < this.#values.length ? this.#values[row]! : NaN;
  }
}

/** Names by code, from 0 up in the order of their first use. */
export class Names {
  readonly #codes = new Map<string, number>();
  readonly list: string[] = [];

  codeOf(name: string): number {
    let code = this.#codes.get(name);
    if (code === undefined) {
      code = this.list.length;
      this.#codes.set(name, code);
      this.list.push(name);
    }
    return code;
  }

  find(name: string): number | null {
    return this.#codes.get(name) ?? null;
  }

  /** Null for NaN, the code of a missing name. */
  name(code: number): string | null {
    return this.list[code] ?? null;
  }
}
