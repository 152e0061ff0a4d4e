/** Jinja templates that are parsed by the Jinja library and evaluated as Python evaluates them, so that prompts equal those of transformers and vLLM. */
import { Environment, parse } from '@huggingface/jinja';
import { renewBudget } from './python-budget.ts';
import { GLOBALS } from './python-globals.ts';
import { PythonInterpreter, type Scope } from './python-interpreter.ts';
import { dictOf } from './python-methods.ts';
import { callable, textOf } from './python-runtime.ts';
import { pythonTokens } from './python-tokens.ts';

export class PythonTemplate {
  readonly #program: object;

  /** Throws the library's error if the template cannot be parsed. */
  constructor(source: string) {
    this.#program = (parse as unknown as (tokens: readonly object[]) => object)(pythonTokens(source));
  }

  /** Throws the library's error if the template rejects the variables. */
  render(variables: Readonly<Record<string, unknown>>): string {
    renewBudget();
    const environment = new Environment();
    for (const [name, value] of Object.entries({ ...GLOBALS, ...variables })) environment.set(name, value);
    (environment as unknown as Scope).setVariable('dict', callable(dictOf));
    return textOf(new PythonInterpreter(environment).run(this.#program));
  }
}
