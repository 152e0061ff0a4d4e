/** Jinja templates that are parsed by the Jinja library and evaluated as Python evaluates them: those of chats, so that prompts equal those of transformers and vLLM, and of pipelines. */
import { Environment, parse } from '@huggingface/jinja';
import { renewBudget } from './python-budget.ts';
import { CHAT_GLOBALS, GLOBALS } from './python-globals.ts';
import { PythonInterpreter, type Scope } from './python-interpreter.ts';
import { dictOf } from './python-methods.ts';
import { callable, textOf } from './python-runtime.ts';
import { pythonTokens } from './python-tokens.ts';

export class PythonTemplate {
  /** The library's parse tree. */
  readonly program: object;
  readonly #globals: Readonly<Record<string, unknown>>;

  /**
   * Throws the library's error if the template cannot be parsed.
   * @param isChat with the variables and the white space that transformers gives the template of a chat; otherwise with those of jinja2
   */
  constructor(source: string, { isChat }: { readonly isChat: boolean }) {
    this.program = (parse as unknown as (tokens: readonly object[]) => object)(pythonTokens(source, isChat));
    this.#globals = isChat ? CHAT_GLOBALS : GLOBALS;
  }

  /** Throws the library's error if the template rejects the variables, and once it takes too long (`python-budget.ts`). */
  render(variables: Readonly<Record<string, unknown>>): string {
    renewBudget(variables);
    const environment = new Environment();
    for (const [name, value] of Object.entries({ ...this.#globals, ...variables })) environment.set(name, value);
    (environment as unknown as Scope).setVariable('dict', callable(dictOf));
    return textOf(new PythonInterpreter(environment).run(this.program));
  }
}
