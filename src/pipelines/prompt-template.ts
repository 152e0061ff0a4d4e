/**
 * Prompt templates in Jinja, printed as jinja2 prints them by default: blocks keep the line breaks around them, one line break at the end is dropped, and
 * missing names are empty. A template cannot run code, and its work is bounded (`tokenizer/python-budget.ts`).
 */
import { libraryText } from '../core/errors.ts';
import { GLOBALS } from '../tokenizer/python-globals.ts';
import { PythonTemplate } from '../tokenizer/python-template.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';
import { printedNames } from './template-names.ts';

export class PromptTemplate {
  readonly #template: PythonTemplate;
  /** Used in messages. */
  readonly name: string;

  /** Throws PipelineFileError if the text is not a template. */
  constructor(source: string, name: string) {
    this.name = name;
    try {
      this.#template = new PythonTemplate(source.replace(/\r\n?/g, '\n'), { isChat: false });
    } catch (cause) {
      throw new PipelineFileError(`${name} is not a Jinja template: ${libraryText(cause)}`, { fault: 'file', cause });
    }
  }

  /** Names that it prints and neither sets nor tests with `if`, and that are not among the given ones. */
  unknownNames(given: readonly string[]): readonly string[] {
    return printedNames(this.#template.program).filter((name) => !given.includes(name) && !Object.hasOwn(GLOBALS, name));
  }

  /** Throws PipelineError if the template cannot use the values. */
  render(values: Readonly<Record<string, unknown>>): string {
    try {
      return this.#template.render(values);
    } catch (cause) {
      throw new PipelineError(`The template ${this.name} cannot be filled in: ${libraryText(cause)}`, { failure: 'value', cause });
    }
  }
}
