import { describe, expect, it } from 'vitest';
import { AgentEnv } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { EnvGroup } from '../../src/core/env-group.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { Rubric } from '../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../src/core/single-turn.ts';
import { ToolEnv } from '../../src/core/tool-use.ts';
import { firstRow, trainingRows } from '../../src/core/training-rows.ts';

const rowsOf = (name: string) => new Dataset<Row>(name, [{ exampleId: name, prompt: [{ role: 'user', content: name }] }]);
const rubric = new Rubric({ funcs: [] });
const held = rowsOf('held');
const taught = rowsOf('taught');

describe('trainingRows', () => {
  const evaluated = new SingleTurnEnv({ id: 'alone', eval: held, rubric });
  const trained = new SingleTurnEnv({ id: 'both', train: taught, eval: held, rubric });

  it.each([
    ['SingleTurnEnv', evaluated, /^alone has no rows to train on, .*\{ purpose: 'training' \}.*`train`/],
    ['ToolEnv', new ToolEnv({ id: 'tools', eval: held, rubric, tools: [] }), /^tools has no rows to train on/],
    ['EnvGroup', new EnvGroup({ id: 'group', environments: { both: trained, alone: evaluated } }), /^alone has no rows to train on/],
    ['AgentEnv', new AgentEnv({ id: 'agent', eval: held, rubric }), /^agent has no rows to train on/],
  ])('rows for evaluation never stand in for rows to train on {%s}', (_, environment, message) => {
    expect(() => environment.train).toThrow(ConfigError);
    expect(() => environment.train).toThrow(message);
    expect(trainingRows(environment)).toBeNull();
    expect(firstRow(environment)).toBe(environment.eval.at(0));
  });

  it('are the rows that the environment was given', () => {
    expect(trainingRows(trained)).toBe(taught);
    expect(firstRow(trained)).toBe(taught.at(0));
  });

  it('lets errors of the environment pass', () => {
    const broken = {
      get train(): Dataset {
        throw new TypeError('broken');
      },
    };
    expect(() => trainingRows(broken)).toThrow('broken');
  });
});
