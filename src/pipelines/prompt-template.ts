/**
 * Prompt templates in Jinja, printed as jinja2 prints them by default: blocks keep the line breaks around them, one line break at the end is dropped, and
 * missing names are empty. A template cannot run code. Differs from jinja2 in filters and values that prompts do not use (docs/pipelines.md).
 */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { thrownText } from '../core/errors.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';

const GLOBALS: Readonly<Record<string, unknown>> = { true: true, false: false, none: null, True: true, False: false, None: null, range };

/** A loop in a template goes round at most this often. jinja2's own bound in its sandbox. */
const LONGEST_RANGE = 100_000;

export class PromptTemplate {
  readonly #program: ReturnType<typeof parse>;
  readonly #name: string;

  /** `name` is used in messages. Throws PipelineFileError if the text is not a template. */
  constructor(source: string, name: string) {
    this.#name = name;
    try {
      // Without the options of the library's own Template, which trim the space around blocks.
      this.#program = parse(tokenize(source.replace(/\r\n?/g, '\n'), {}));
    } catch (cause) {
      throw new PipelineFileError(`${name} is not a Jinja template: ${oneLine(cause)}`, { fault: 'file', cause });
    }
  }

  /** Throws PipelineError if the template cannot use the values. */
  render(values: Readonly<Record<string, unknown>>): string {
    try {
      const environment = new Environment();
      for (const [name, value] of Object.entries({ ...GLOBALS, ...values })) environment.set(name, value);
      return String(new Interpreter(environment).run(this.#program).value);
    } catch (cause) {
      throw new PipelineError(`The template ${this.#name} cannot be filled in: ${oneLine(cause)}`, { failure: 'failed', cause });
    }
  }
}

function range(...bounds: readonly number[]): readonly number[] {
  const [start, stop, step = 1] = bounds.length === 1 ? [0, bounds[0]!] : bounds;
  if (bounds.length === 0 || ![start, stop, step].every(Number.isInteger) || step === 0)
    throw new TypeError('range needs whole numbers, and a step that is not 0');
  const length = Math.max(0, Math.ceil((stop! - start!) / step));
  if (length > LONGEST_RANGE) throw new RangeError(`range has ${length} numbers, the limit is ${LONGEST_RANGE}`);
  return Array.from({ length }, (_, i) => start! + i * step);
}

function oneLine(thrown: unknown): string {
  return thrownText(thrown).replaceAll(/\s+/g, ' ').slice(0, 300);
}
