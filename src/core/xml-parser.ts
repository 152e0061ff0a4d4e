/**
 * Fields between tags: `<reasoning>...</reasoning><answer>...</answer>`. A field is one tag or a list of alternatives, the first of which is
 * canonical. Scores formats exactly as verifiers 0.1.14 does; test/golden/parsers.json was made by running it.
 */
import { ConfigError } from './errors.ts';
import { Parser } from './parser.ts';

export interface XMLParserOptions {
  /** In the order they are expected; `['think', ['code', 'answer']]` allows two tags for the second. */
  readonly fields: readonly (string | readonly string[])[];
  /** @default 'answer' */
  readonly answerField?: string;
}

export class XMLParser extends Parser {
  readonly #fields: readonly (readonly string[])[];
  readonly #answerField: string;

  constructor(options: XMLParserOptions) {
    super();
    this.#fields = options.fields.map((field) => (typeof field === 'string' ? [field] : field));
    this.#answerField = options.answerField ?? 'answer';
    const canonical = this.getFields();
    if (canonical.length === 0 || canonical.some((name) => !name)) throw new ConfigError('An XML parser needs at least one field, each with a name');
    const repeated = canonical.find((name, i) => canonical.indexOf(name) !== i);
    if (repeated !== undefined) throw new ConfigError(`Two XML fields are called "${repeated}". Rename one.`);
  }

  /** The canonical field names, in order. */
  getFields(): string[] {
    return this.#fields.map((alternatives) => alternatives[0]!);
  }

  /** Every allowed tag's text, trimmed, or null. Takes the first closed pair of a tag, or the last with `last: true`. */
  parse(text: string, options: { readonly last?: boolean } = {}): Record<string, string | null> {
    const found: Record<string, string | null> = {};
    for (const tag of this.#fields.flat()) found[tag] = contents(text, tag, options.last ?? false);
    return found;
  }

  /** The last closed answer field, or null. */
  override parseAnswer(text: string): string | null {
    return this.parse(text, { last: true })[this.#answerField] ?? null;
  }

  /** `.4 * (fields present / fields) + .2 spacing + .2 starts with the first field + .2 ends with the last`; spacing always holds, as upstream. */
  override formatReward(text: string): number {
    const parsed = this.parse(text);
    const isPresent = (tag: string) => parsed[tag] !== null || text.includes(`<${tag}>`) || text.includes(`</${tag}>`);
    const present = this.#fields.filter((alternatives) => alternatives.some(isPresent)).length;
    const hasContent = Object.values(parsed).some((value) => value !== null);
    const trimmed = text.trim();
    const starts = this.#fields[0]!.some((tag) => trimmed.startsWith(`<${tag}>`));
    const ends = this.#fields.at(-1)!.some((tag) => trimmed.endsWith(`</${tag}>`));
    return (hasContent ? 0.4 * (present / this.#fields.length) : 0) + 0.2 + (starts ? 0.2 : 0) + (ends ? 0.2 : 0);
  }

  /** The format, for a system prompt. */
  getFormatStr(): string {
    const shown = this.#fields.map((alternatives) => (alternatives.length > 1 ? `[ ${alternatives.join(' | ')} ]` : alternatives[0]!));
    return shown.map((tag) => `<${tag}>\n...\n</${tag}>`).join('\n');
  }

  /** The values between their canonical tags, for few-shot examples. Throws ConfigError when a field has no value. */
  format(values: Readonly<Record<string, string>>): string {
    const parts = this.#fields.map((alternatives) => {
      const name = alternatives.find((tag) => values[tag] !== undefined);
      if (name === undefined) throw new ConfigError(`Field "${alternatives[0]}" (${alternatives.join(' or ')}) has no value`);
      return `<${alternatives[0]}>\n${values[name]}\n</${alternatives[0]}>`;
    });
    return parts.join('\n');
  }
}

/** What `<tag>(.*?)</tag>` captures, first or last match, trimmed; by scanning, so linear on text full of unclosed tags. */
function contents(text: string, tag: string, last: boolean): string | null {
  const open = `<${tag}>`;
  const close = `</${tag}>`;
  let found: string | null = null;
  for (let at = text.indexOf(open); at !== -1;) {
    const start = at + open.length;
    const end = text.indexOf(close, start);
    if (end === -1) break;
    found = text.slice(start, end).trim();
    if (!last) break;
    at = text.indexOf(open, end + close.length);
  }
  return found;
}
