import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { assertRoleHasValues, ONE_ROLE, withPlayedRoles } from '../../../src/trainer/losses/loss-roles.ts';
import type { PlayedRoles } from '../../../src/trainer/token-loss.ts';
import { someConfig } from '../some-config.ts';

const PLAYED: PlayedRoles = { propose: {}, solve: {}, critique: { aliases: ['critic'] } };
const BETA = { propose: 0.01, solve: 0.05, critique: 0.1 };
const rpg = (args: Record<string, unknown>, losses: Record<string, unknown> = {}) =>
  someConfig({ algorithm: { old_log_probs: 'sampler', loss: { use: 'rpg', args } }, losses });

describe('withPlayedRoles', () => {
  it('takes the names of the source and their aliases, in every setting by role', () => {
    const further = { use: 'rpg', args: { beta: { critic: 1 } }, roles: ['critic'] };
    const config = rpg({ beta: { propose: 0.01, solve: 0.05, critic: 0.1 }, weight: { ...BETA } }, { more: further });
    const named = withPlayedRoles(config, PLAYED);
    expect(named.algorithm.loss.args).toEqual({ beta: BETA, weight: BETA });
    expect(named.losses['more']).toMatchObject({ roles: ['critique'], args: { beta: { critique: 1 } } });
    // One number is for all roles; settings of a module are its own.
    for (const same of [rpg({ beta: 0.1 }), someConfig({ losses: { own: { use: './own.ts', args: { beta: { anyone: 1 } } } } })])
      expect(withPlayedRoles(same, PLAYED)).toEqual(same);
  });

  it.each([
    [
      'a wrong name',
      rpg({ beta: { ...BETA, critque: 1 } }),
      'algorithm.loss.args.beta names the role "critque" (did you mean critique?), but this run has the roles propose, solve, critique',
    ],
    [
      'a missing role',
      rpg({ beta: 1, weight: { propose: 1, solve: 1 } }),
      'algorithm.loss.args.weight has no value for the role "critique", only for propose, solve; add one',
    ],
    [
      'a name and its alias',
      rpg({ beta: { ...BETA, critic: 1 } }),
      'algorithm.loss.args.beta names the role critique twice, once as critic; keep one',
    ],
    [
      'a wrong name in roles',
      someConfig({ losses: { more: { use: 'nll', roles: ['solver'] } } }),
      'losses.more.roles names the role "solver" (did you mean solve?)',
    ],
    [
      'a wrong name for a further loss',
      rpg({ beta: 1 }, { more: { use: 'rpg', args: { beta: { solve: 1, judge: 2 } }, roles: ['solve'] } }),
      'losses.more.args.beta names the role "judge"',
    ],
  ])('refuses %s', (_, config, message) => {
    expect(() => withPlayedRoles(config, PLAYED)).toThrow(ConfigError);
    expect(() => withPlayedRoles(config, PLAYED)).toThrow(message);
  });

  it('needs no value for a role that is not trained, and refuses a loss on such roles alone', () => {
    const played: PlayedRoles = { ...PLAYED, critique: { isTrained: false } };
    expect(() => withPlayedRoles(rpg({ beta: { propose: 1, solve: 1 } }), played)).not.toThrow();
    expect(() => withPlayedRoles(rpg({ beta: BETA }), played)).not.toThrow();
    const alone = someConfig({ losses: { more: { use: 'nll', roles: ['critique'] } } });
    expect(() => withPlayedRoles(alone, played)).toThrow(
      'losses.more applies to critique, but this run trains propose, solve; correct losses.more.roles',
    );
  });

  it('knows that rollouts of a data set and demonstrations have the one role policy', () => {
    expect(() => withPlayedRoles(rpg({ beta: { policy: 1 } }), ONE_ROLE)).not.toThrow();
    expect(() => withPlayedRoles(rpg({ beta: { solve: 1 } }), ONE_ROLE)).toThrow('names the role "solve", but this run has only the role policy');
    const shown = someConfig({ sft: { data: 'rows.jsonl' }, losses: { more: { use: 'nll', on: 'demonstrations', roles: ['solve'] } } });
    expect(() => withPlayedRoles(shown, PLAYED)).toThrow('losses.more.roles names the role "solve", but this run has only the role policy');
  });
});

describe('withPlayedRoles for rollouts of a file', () => {
  it('takes aliases and refuses wrong names, but needs no value for a role that the file may not have', () => {
    const file = (beta: object) => ({ ...rpg({ beta }), rolloutsFile: 'theirs.jsonl' });
    expect(withPlayedRoles(file({ solve: 1, critic: 2 }), PLAYED).algorithm.loss.args).toEqual({ beta: { solve: 1, critique: 2 } });
    expect(() => withPlayedRoles(file({ solve: 1, judge: 2 }), PLAYED)).toThrow('names the role "judge"');
  });
});

describe('assertRoleHasValues', () => {
  it('refuses a role without a value, unless no loss with values by role is taken on it', () => {
    const config = rpg({ beta: 1 }, { more: { use: 'rpg', args: { beta: { judge: 1 } }, roles: ['judge', 'writer'] } });
    expect(() => assertRoleHasValues(config, 'judge')).not.toThrow();
    expect(() => assertRoleHasValues(config, 'solve')).not.toThrow();
    expect(() => assertRoleHasValues(config, 'writer')).toThrow('losses.more.args.beta has no value for the role "writer", only for judge');
  });
});
