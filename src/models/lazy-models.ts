import { ModelError } from '../core/errors.ts';
import type { Model, Models, RoleDeclarations } from '../core/model.ts';

/**
 * Models that an environment gets while it loads, before anything can answer: each forwards to what the run binds later. Whatever the environment
 * asks through them belongs to no rollout and is recorded nowhere; in an episode and in a reward it asks the models that it is given there.
 */
export class LazyModels {
  #models: Models = {};
  #bound: Models | null = null;

  /** One for each declared role. */
  get models(): Models {
    return this.#models;
  }

  declare(declarations: RoleDeclarations): void {
    this.#models = Object.fromEntries(Object.keys(declarations).map((role) => [role, this.#lazy(role)]));
  }

  /** From now on they answer. */
  bind(models: Models): void {
    this.#bound = models;
  }

  #lazy(role: string): Model {
    const bound = () => this.#bound?.[role];
    return {
      get name() {
        return bound()?.name ?? role;
      },
      generate: async (messages, request) => {
        const model = bound();
        if (model !== undefined) return model.generate(messages, request);
        throw new ModelError(
          `Role ${role} was asked before the run was set up. Ask it in an episode or in a reward, and not while the environment loads.`,
          { role, reason: 'not_set_up' },
        );
      },
    };
  }
}
