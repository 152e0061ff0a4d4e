/**
 * Parses fields between tags: `<reasoning>...</reasoning><answer>...</answer>`. A field is a tag or a list of alternative tags; the first is
 * canonical. Format scores equal those of verifiers 0.1.14, which generated test/golden/parsers.json.
 */
import { ConfigError } from './errors.ts';
import { firstRepeated } from './first-repeated.ts';
import { Parser } from './parser.ts';

export interface XMLParserOptions {
  /** The fields in their expected order, at least one; `['think', ['code', 'answer']]` allows two tags for the second. */
  readonly fields: readonly (string | readonly string[])[];
  /** The tag that `parseAnswer` reads. @default 'answer' */
  readonly answerField?: string;
}

/**
 * A parser of XML-like fields. The constructor throws ConfigError if a name is empty or repeated.
 * @example new XMLParser({ fields: ['think', 'answer'] }).parseAnswer('<think>2 + 2</think><answer>4</answer>') // '4'
 */
export class XMLParser extends Parser {
  readonly #fields: readonly (readonly string[])[];
  readonly #answerField: string;

  constructor(options: XMLParserOptions) {
    super();
    this.#fields = options.fields.map((field) => (typeof field === 'string' ? [field] : field));
    this.#answerField = options.answerField ?? 'answer';
    const canonical = this.getFields();
    if (canonical.length === 0 || canonical.some((name) => !name))
      throw new ConfigError('An XMLParser needs at least one field, and every field needs a name');
    const repeated = firstRepeated(canonical);
    if (repeated !== undefined) throw new ConfigError(`Two XML fields are called "${repeated}". Rename one.`);
  }

  /** The canonical field names, in order. */
  getFields(): string[] {
    return this.#fields.map((alternatives) => alternatives[0]!);
  }

  /** The trimmed text of every allowed tag, null if it does not occur. Takes the first closed pair of a tag, or the last with `last: true`. */
  parse(text: string, options: { readonly last?: boolean } = {}): Record<string, string | null> {
    const found: Record<string, string | null> = {};
    for (const tag of this.#fields.flat()) found[tag] = contents(text, tag, options.last ?? false);
    return found;
  }

  /** The text of the last closed answer field; null if there is none. */
  override parseAnswer(text: string): string | null {
    return this.parse(text, { last: true })[this.#answerField] ?? null;
  }

  /** 0.4 × share of fields present, plus 0.2 for spacing (always given, as in verifiers), 0.2 if the text starts with the first field, 0.2 if it ends with the last. */
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

  /** A description of the format for a system prompt. */
  getFormatStr(): string {
    const shown = this.#fields.map((alternatives) => (alternatives.length > 1 ? `[ ${alternatives.join(' | ')} ]` : alternatives[0]!));
    return shown.map((tag) => `<${tag}>\n...\n</${tag}>`).join('\n');
  }

  /** Writes the values between their canonical tags, for few-shot examples. Throws ConfigError if a field has no value. */
  format(values: Readonly<Record<string, string>>): string {
    const parts = this.#fields.map((alternatives) => {
      const name = alternatives.find((tag) => values[tag] !== undefined);
      if (name === undefined) throw new ConfigError(`Field "${alternatives[0]}" (${alternatives.join(' or ')}) has no value`);
      return `<${alternatives[0]}>\n${values[name]}\n</${alternatives[0]}>`;
    });
    return parts.join('\n');
  }
}

/** The trimmed capture of the first or last match of `<tag>(.*?)</tag>`. Scans, which is linear even with many unclosed tags. */
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
