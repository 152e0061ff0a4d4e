import { ModelError } from '../core/errors.ts';
import type { Model, Models, RoleDeclarations } from '../core/model.ts';

/**
 * Models for an environment that is being loaded, before any model can answer: each forwards to the one that the run binds later. Calls through them
 * belong to no rollout and are not recorded; in episodes and rewards, use the models that are passed there.
 */
export class LazyModels {
  #models: Models = {};
  #bound: Models | null = null;

  /** One model for each declared role. */
  get models(): Models {
    return this.#models;
  }

  /** Creates the models of these roles. */
  declare(declarations: RoleDeclarations): void {
    this.#models = Object.fromEntries(Object.keys(declarations).map((role) => [role, this.#lazy(role)]));
  }

  /** From now on, calls go to `models`. Before, they throw ModelError. */
  bind(models: Models): void {
    this.#bound = models;
  }

  #lazy(role: string): Model {
    const bound = () => this.#bound?.[role];
    const isBound = () => this.#bound !== null;
    return {
      get name() {
        return bound()?.name ?? role;
      },
      generate: async (messages, request) => {
        const model = bound();
        if (model !== undefined) return model.generate(messages, request);
        const problem = isBound()
          ? `No model plays the role ${role}. Call it in an episode or a reward, with the models that are passed there.`
          : `Role ${role} was called before the run was set up. Call it in an episode or a reward, not while the environment loads.`;
        throw new ModelError(problem, { role, reason: 'not_set_up' });
      },
    };
  }
}
