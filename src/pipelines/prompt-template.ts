/**
 * Prompt templates in Jinja, printed as jinja2 prints them by default: blocks keep the line breaks around them, one line break at the end is dropped, and
 * missing names are empty. A template cannot run code. Differs from jinja2 in filters and values that prompts do not use (docs/pipelines.md).
 */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { thrownText } from '../core/errors.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';
import { printedNames } from './template-names.ts';

const GLOBALS: Readonly<Record<string, unknown>> = { true: true, false: false, none: null, True: true, False: false, None: null };

/**
 * Limits of one rendering, so that loops within loops end: the numbers that `range` gives, the expressions and statements that are evaluated, and the total length
 * of their texts and lists, in characters and bytes.
 */
const MOST_NUMBERS = 100_000;
const MOST_STEPS = 1_000_000;
const MOST_LENGTH = 200_000_000;
/** An item of a list counts as the bytes that it takes. A list is made before it is counted, and may be twice as long as the one before. */
const ITEM_LENGTH = 8;

export class PromptTemplate {
  readonly #program: ReturnType<typeof parse>;
  /** Used in messages. */
  readonly name: string;

  /** Throws PipelineFileError if the text is not a template. */
  constructor(source: string, name: string) {
    this.name = name;
    try {
      // Without the options of the library's own Template, which trim the space around blocks.
      this.#program = parse(tokenize(source.replace(/\r\n?/g, '\n'), {}));
    } catch (cause) {
      throw new PipelineFileError(`${name} is not a Jinja template: ${oneLine(cause)}`, { fault: 'file', cause });
    }
  }

  /** Names that it prints and neither sets nor tests with `if`, and that are not among the given ones. */
  unknownNames(given: readonly string[]): readonly string[] {
    return printedNames(this.#program).filter((name) => !given.includes(name) && !Object.hasOwn(GLOBALS, name));
  }

  /** Throws PipelineError if the template cannot use the values. */
  render(values: Readonly<Record<string, unknown>>): string {
    try {
      const environment = new Environment();
      for (const [name, value] of Object.entries({ ...GLOBALS, range: boundedRange(), ...values })) environment.set(name, value);
      return String(boundedInterpreter(environment).run(this.#program).value);
    } catch (cause) {
      throw new PipelineError(`The template ${this.name} cannot be filled in: ${oneLine(cause)}`, { failure: 'value', cause });
    }
  }
}

interface Interpreting {
  evaluate(statement: unknown, scope: unknown): unknown;
  run(program: unknown): { readonly value: unknown };
}

function boundedInterpreter(environment: Environment): Interpreting {
  const interpreter: Interpreting = new Interpreter(environment);
  const evaluate = interpreter.evaluate.bind(interpreter);
  let steps = 0;
  let length = 0;
  interpreter.evaluate = (statement, scope) => {
    if (++steps > MOST_STEPS) throw new RangeError(`it takes more than ${MOST_STEPS} steps; shorten its loops`);
    const result = evaluate(statement, scope);
    length += lengthOf(result);
    if (length > MOST_LENGTH) throw new RangeError(`its texts and lists are longer than ${MOST_LENGTH} in total; shorten its loops`);
    return result;
  };
  return interpreter;
}

function lengthOf(result: unknown): number {
  const { value } = result as { readonly value?: unknown };
  if (Array.isArray(value)) return ITEM_LENGTH * value.length;
  return typeof value === 'string' ? value.length : 0;
}

function boundedRange(): (...bounds: readonly number[]) => readonly number[] {
  let left = MOST_NUMBERS;
  return (...bounds) => {
    const [start, stop, step = 1] = bounds.length === 1 ? [0, bounds[0]!] : bounds;
    if (bounds.length === 0 || ![start, stop, step].every(Number.isInteger) || step === 0)
      throw new TypeError('range needs whole numbers, and a step that is not 0');
    const length = Math.max(0, Math.ceil((stop! - start!) / step));
    left -= length;
    if (left < 0) throw new RangeError(`its ranges have more than ${MOST_NUMBERS} numbers; shorten its loops`);
    return Array.from({ length }, (_, i) => start! + i * step);
  };
}

function oneLine(thrown: unknown): string {
  return thrownText(thrown).replaceAll(/\s+/g, ' ').slice(0, 300);
}
