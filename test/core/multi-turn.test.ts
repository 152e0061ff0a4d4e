import { describe, expect, it } from 'vitest';
import { Dataset } from '../../src/core/dataset.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { Rubric } from '../../src/core/rubric.ts';

class EchoEnv extends MultiTurnEnv {
  protected setupState() {
    return { turns: 0 };
  }

  protected envResponse() {
    return { done: true };
  }
}

const made = (options: object) => {
  const rows = new Dataset('rows', [{ exampleId: 1, prompt: [{ role: 'user', content: '?' }] }]);
  return new EchoEnv({ id: 'echo', eval: rows, rubric: new Rubric({ funcs: [] }), ...options });
};

describe('MultiTurnEnv', () => {
  it.each([
    [{ maxTruns: 3 }, 'maxTruns; did you mean maxTurns?'],
    [{ limit: { responseTokens: 9 } }, 'limit; did you mean limits?'],
    [{ turnformat: 'chat' }, 'turnformat; did you mean turnFormat?'],
    [{ limits: { responseToken: 9 } }, 'responseToken; did you mean responseTokens?'],
  ])('refuses the misspelled option %j, which would have no effect', (options, message) => {
    expect(() => made(options)).toThrow(ConfigError);
    expect(() => made(options)).toThrow(`The environment echo has no option ${message}`);
  });

  it('takes options of a subclass that passes on all of its own', () => {
    expect(made({ tools: [], calls: 'text', corpus: 'x', minTurns: 1 }).maxTurns).toBe(10);
  });
});
