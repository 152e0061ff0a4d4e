/** Names and subjects of the invented companies. */
import type { Random } from '../../src/core/random.ts';

const SYLLABLES = [
  'bor',
  'ven',
  'tal',
  'mi',
  'ro',
  'ka',
  'del',
  'sun',
  'fra',
  'lo',
  'ni',
  'gar',
  'tes',
  'ul',
  'pra',
  'he',
  'vi',
  'dor',
  'am',
  'qua',
  'zel',
  'on',
];

export const LEGAL_FORMS = ['Group', 'Holding', 'Works', 'Company'];
export const SECTORS = [
  'harbour cranes',
  'cold storage',
  'rail freight',
  'solar glass',
  'seed potatoes',
  'marine cables',
  'paper recycling',
  'ferry lines',
];
export const REGIONS = ['North', 'South', 'East', 'West', 'Islands'];
export const YEARS = [2019, 2020, 2021, 2022, 2023];

/** A figure that companies report, and its unit. */
export interface Metric {
  readonly name: string;
  readonly unit: string;
}

export const METRICS: readonly Metric[] = [
  { name: 'revenue', unit: 'millions' },
  { name: 'operating cost', unit: 'millions' },
  { name: 'headcount', unit: 'people' },
  { name: 'shipments', unit: 'thousand tonnes' },
  { name: 'energy use', unit: 'GWh' },
  { name: 'customer complaints', unit: 'cases' },
  { name: 'warranty claims', unit: 'cases' },
  { name: 'training hours', unit: 'hours' },
];

export const NOTES = [
  'audit fee',
  'vehicle lease',
  'storm provision',
  'staff loan',
  'pension deficit',
  'patent licence',
  'unpaid invoice',
  'insurance excess',
  'site clearance',
  'translation cost',
];

/** Draws different names. */
export class Names {
  readonly #random: Random;
  readonly #given = new Set<string>();

  constructor(random: Random) {
    this.#random = random;
  }

  one(): string {
    for (;;) {
      const syllables = Array.from({ length: 2 + this.#random.integer(2) }, () => SYLLABLES[this.#random.integer(SYLLABLES.length)]!);
      const name = syllables.join('');
      if (this.#given.has(name)) continue;
      this.#given.add(name);
      return capitalized(name);
    }
  }

  person(): string {
    return `${this.one()} ${this.one()}`;
  }
}

export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
