/** The contents of the deck: reports of eight invented companies, nine pages each, and eighteen questions about each. */
import type { Random } from '../../src/core/random.ts';
import type { Measure } from './measure.ts';
import { HEIGHT, Page, WIDTH } from './page.ts';
import { capitalized, LEGAL_FORMS, type Metric, METRICS, Names, NOTES, REGIONS, SECTORS, YEARS } from './words.ts';

export interface Question {
  readonly question: string;
  readonly answer: string;
  readonly document: string;
  readonly pages: readonly number[];
  readonly kind: 'title' | 'table' | 'chart' | 'small print' | 'list' | 'two pages' | 'duplicate';
}

interface Table {
  readonly metric: Metric;
  /** Values by region, then by year. */
  readonly values: readonly (readonly number[])[];
  readonly page: number;
}

const BACKGROUNDS = ['#ffffff', '#fbf8f1', '#f3f7fb'];
const HUES = ['#1f5aa6', '#b0413e', '#2e7d4f', '#7a4fa3', '#c77d0a'];
const GREY = '#555555';
const STRIPES = ['#e9edf2', '#f4f6f9'];

export interface Deck {
  readonly pages: readonly Page[];
  readonly questions: readonly Question[];
}

export function buildDeck(random: Random, measure: Measure): Deck {
  const names = new Names(random.fork('names'));
  const reports = SECTORS.map((sector, i) => new Report({ number: i + 1, sector, names, measure, random: random.fork(`report ${i}`) }));
  for (const report of reports) report.write();
  return { pages: reports.flatMap(({ pages }) => pages), questions: reports.flatMap(({ questions }) => questions) };
}

interface ReportOptions {
  readonly number: number;
  readonly sector: string;
  readonly names: Names;
  readonly measure: Measure;
  readonly random: Random;
}

class Report {
  readonly pages: Page[] = [];
  readonly questions: Question[] = [];
  readonly #document: string;
  readonly #sector: string;
  readonly #company: string;
  readonly #hue: string;
  readonly #background: string;
  readonly #names: Names;
  readonly #measure: Measure;
  readonly #random: Random;

  constructor({ number, sector, names, measure, random }: ReportOptions) {
    this.#document = `deck_${number}`;
    this.#sector = sector;
    this.#names = names;
    this.#measure = measure;
    this.#random = random;
    this.#company = `${names.one()} ${this.#pick(LEGAL_FORMS)}`;
    this.#hue = HUES[number % HUES.length]!;
    this.#background = BACKGROUNDS[number % BACKGROUNDS.length]!;
  }

  write(): void {
    const [first, second, bars, trend] = this.#random.shuffle(METRICS) as [Metric, Metric, Metric, Metric];
    this.#title();
    const tables = [this.#table(first), this.#table(second)] as const;
    this.#bars(bars);
    this.#trend(trend);
    this.#notes();
    this.#sites();
    this.#twoPages(tables);
    this.#highlight(tables[0]);
    this.#disclaimer();
  }

  #title(): void {
    const page = this.#open(`${this.#company}: annual report on ${this.#sector}`);
    page.text(80, 300, this.#company, { size: 60, fill: this.#hue });
    page.text(80, 360, `Annual report on ${this.#sector}, ${YEARS[0]} to ${YEARS.at(-1)}`, { size: 28 });
    const chair = this.#names.person();
    page.text(80, 700, `Chair of the board: ${chair}`, { size: 18 });
    this.#ask('title', `Who chairs the board of ${this.#company}?`, chair);
  }

  #table(metric: Metric): Table {
    const page = this.#open(`${capitalized(metric.name)} by region (${metric.unit})`);
    const values = REGIONS.map(() => YEARS.map(() => this.#between(11, 989)));
    const column = (j: number) => 290 + j * 150;
    for (const [j, year] of YEARS.entries()) page.text(column(j), 150, `${year}`, { anchor: 'middle' });
    for (const [i, region] of REGIONS.entries()) {
      page.rect(70, 168 + i * 78, 880, 74, STRIPES[i % 2]!);
      page.text(90, 215 + i * 78, region);
      for (const j of YEARS.keys()) page.text(column(j), 215 + i * 78, `${values[i]![j]}`, { anchor: 'middle' });
    }
    page.text(60, 640, `Source: ${this.#company}, internal accounts.`, { size: 11, fill: GREY });
    for (const [i, j] of this.#cells(3))
      this.#ask('table', `What ${was(metric)} the ${metric.name} of ${this.#company} in region ${REGIONS[i]} in ${YEARS[j]}?`, `${values[i]![j]}`);
    return { metric, values, page: this.pages.length };
  }

  #bars({ name, unit }: Metric): void {
    const page = this.#open(`${capitalized(name)} per year (${unit})`);
    const values = this.#distinct(YEARS.length, 20, 480);
    page.line([120, 640], [940, 640], '#333333', 2);
    for (const [i, value] of values.entries()) {
      page.rect(160 + i * 155, 640 - value, 90, value, this.#hue);
      page.text(205 + i * 155, 630 - value, `${value}`, { size: 20, anchor: 'middle' });
      page.text(205 + i * 155, 670, `${YEARS[i]}`, { size: 20, anchor: 'middle' });
    }
    const asked = this.#random.integer(YEARS.length);
    this.#ask('chart', `According to the bar chart, what ${was({ name })} the ${name} of ${this.#company} in ${YEARS[asked]}?`, `${values[asked]}`);
    this.#ask('chart', `In which year ${was({ name })} the ${name} of ${this.#company} highest?`, `${YEARS[values.indexOf(Math.max(...values))]}`);
  }

  #trend({ name, unit }: Metric): void {
    const page = this.#open(`Trend of ${name} (${unit})`);
    const values = this.#distinct(YEARS.length, 20, 480);
    page.line([120, 640], [940, 640], '#333333', 2);
    const point = (i: number) => [205 + i * 155, 620 - values[i]!] as const;
    for (let i = 1; i < YEARS.length; i++) page.line(point(i - 1), point(i), this.#hue, 4);
    for (const [i, value] of values.entries()) {
      page.text(205 + i * 155, 605 - value, `${value}`, { size: 16, anchor: 'middle' });
      page.text(205 + i * 155, 670, `${YEARS[i]}`, { size: 18, anchor: 'middle' });
    }
    const asked = this.#random.integer(YEARS.length);
    this.#ask('chart', `What value does the line chart of ${this.#company} show for ${name} in ${YEARS[asked]}?`, `${values[asked]}`);
  }

  #notes(): void {
    const page = this.#open('Notes and definitions');
    const notes = NOTES.map((note) => ({ note, amount: this.#between(101, 9899) }));
    for (const [i, { note, amount }] of notes.entries()) {
      const text = `${i + 1}. The ${note} of ${this.#company} in 2023 amounted to ${grouped(amount)} thousand.`;
      page.text(70, 130 + i * 56, text, { size: 11, fill: GREY });
    }
    for (const { note, amount } of this.#random.shuffle(notes).slice(0, 3))
      this.#ask('small print', `How many thousand did the ${note} of ${this.#company} amount to in 2023?`, grouped(amount));
  }

  #sites(): void {
    const page = this.#open(`People and places in ${this.#sector}`);
    const sites = Array.from({ length: 5 }, () => ({ site: this.#names.one(), year: this.#between(1921, 2015), manager: this.#names.person() }));
    for (const [i, { site, year, manager }] of sites.entries()) {
      page.rect(60, 110 + i * 120, 900, 100, STRIPES[i % 2]!);
      page.text(84, 150 + i * 120, `${site} plant`, { size: 24, fill: this.#hue });
      page.text(84, 188 + i * 120, `opened ${year}, managed by ${manager}`, { size: 16 });
    }
    const [managed, opened] = [this.#pick(sites), this.#pick(sites)];
    this.#ask('list', `Who manages the ${managed.site} plant of ${this.#company}?`, managed.manager);
    this.#ask('list', `When did the ${opened.site} plant of ${this.#company} open?`, `${opened.year}`);
  }

  /** Asks about both tables; writes no page. */
  #twoPages([a, b]: readonly [Table, Table]): void {
    const pages = [a.page, b.page];
    const [[i, j], [k, l]] = this.#cells(2) as [[number, number], [number, number]];
    const both = `For ${this.#company} in ${YEARS[j]} and region ${REGIONS[i]}: what are the ${a.metric.name} and the ${b.metric.name}?`;
    this.#ask('two pages', both, `${a.values[i]![j]} and ${b.values[i]![j]}`, pages);
    const apart = `For ${this.#company} in ${YEARS[l]} and region ${REGIONS[k]}: by how much do the ${a.metric.name} and the ${b.metric.name} differ as numbers?`;
    this.#ask('two pages', apart, `${Math.abs(a.values[k]![l]! - b.values[k]![l]!)}`, pages);
  }

  /** A fact that is on two pages. */
  #highlight({ metric, values, page: tablePage }: Table): void {
    const page = this.#open(`Highlights: ${metric.name}`);
    const region = this.#random.integer(REGIONS.length);
    const value = `${values[region]!.at(-1)}`;
    page.text(80, 260, `${REGIONS[region]} ${YEARS.at(-1)}`, { size: 36 });
    page.text(80, 380, value, { size: 110, fill: this.#hue });
    page.text(80, 440, `${metric.name} (${metric.unit}), as on page ${tablePage}`, { size: 18 });
    const question = `Which figure for ${metric.name} does ${this.#company} highlight for ${REGIONS[region]} in ${YEARS.at(-1)}?`;
    this.#ask('duplicate', question, value, [this.pages.length, tablePage]);
  }

  /** Names the figures of the other pages without their values, so that a search can find the wrong page. */
  #disclaimer(): void {
    const page = this.#open('Disclaimer');
    for (let i = 0; i < 14; i++) {
      const [a, b, c] = this.#random.shuffle(METRICS).map(({ name }) => name);
      page.text(60, 120 + i * 42, `This report on ${this.#sector} speaks of ${a}, ${b} and ${c} of ${this.#company} in general terms only.`, {
        size: 13,
        fill: GREY,
      });
    }
  }

  #open(title: string): Page {
    const number = this.pages.length + 1;
    const page = new Page(`${this.#document}_${number}`, this.#background, this.#measure);
    page.rect(0, 0, WIDTH, 64, this.#hue);
    page.text(28, 42, title, { size: 26, fill: '#ffffff' });
    page.text(WIDTH - 28, HEIGHT - 18, `${this.#company} · ${number}`, { size: 12, anchor: 'end', fill: GREY });
    this.pages.push(page);
    return page;
  }

  /** About the page that was opened last, unless other pages are named. */
  #ask(kind: Question['kind'], question: string, answer: string, pages: readonly number[] = [this.pages.length]): void {
    this.questions.push({ question, answer, document: this.#document, pages, kind });
  }

  /** Different cells of a table: region, year. */
  #cells(count: number): (readonly [number, number])[] {
    const all = REGIONS.flatMap((_, i) => YEARS.map((__, j) => [i, j] as const));
    return this.#random.shuffle(all).slice(0, count);
  }

  #distinct(count: number, low: number, high: number): number[] {
    const values = new Set<number>();
    while (values.size < count) values.add(this.#between(low, high));
    return [...values];
  }

  #between(low: number, high: number): number {
    return low + this.#random.integer(high - low + 1);
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#random.integer(items.length)]!;
  }
}

/** The form for a metric: `What were the shipments?`, `What was the revenue?`. */
function was({ name }: Pick<Metric, 'name'>): string {
  return name.endsWith('s') ? 'were' : 'was';
}

/** With a comma before the last three digits. */
function grouped(amount: number): string {
  return amount.toLocaleString('en');
}
