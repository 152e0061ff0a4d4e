/** The environment's own models, for its roles that the caller of a rollout gives no other model. */
import { ConfigError } from '../core/errors.ts';
import {
  type AskedRecord,
  builtinModels,
  type Model,
  type Models,
  type RoleDeclarations,
  type RoleModels,
  type RolloutModels,
} from '../core/model.ts';
import type { Environment } from '../core/environment.ts';

/** Throws ConfigError, with the remedy, if a role has neither a model of the caller nor one of the environment. */
export function assertRolesPlayed({ id, roles = {} }: Pick<Environment, 'id' | 'roles'>, models: RoleModels | undefined): void {
  if (Object.keys(roles).length === 0) return;
  const players = playersOf(roles, models?.forRollout('checked before the first rollout')).models;
  const role = Object.keys(roles).find((name) => players[name] === undefined);
  if (role === undefined) return;
  const model = roles[role]!.default === 'policy' ? 'clientModel(() => client, { name: client.name, isPolicy: true })' : 'MODEL';
  throw new ConfigError(
    `No model plays the role ${role} of ${id}, which ${roles[role]!.about}. Pass models: await openRoleModels({ ${role}: { model: ${model} } }).`,
  );
}

/** The models for a rollout: those given, and the builtin ones of the other roles, whose calls are recorded too. */
export function playersOf(roles: RoleDeclarations = {}, given: RolloutModels = { models: {}, asked: [] }): RolloutModels {
  const builtin = Object.entries(builtinModels(roles)).filter(([role]) => given.models[role] === undefined);
  if (builtin.length === 0) return given;
  const asked: AskedRecord[] = [];
  let moved = 0;
  const followed = (model: Model): Model => ({
    name: model.name,
    async generate(messages, request) {
      try {
        return await model.generate(messages, request);
      } finally {
        for (; moved < given.asked.length; moved++) asked.push(given.asked[moved]!);
      }
    },
  });
  const models: Models = {
    ...Object.fromEntries(Object.entries(given.models).map(([role, model]) => [role, followed(model)])),
    ...Object.fromEntries(builtin.map(([role, model]) => [role, recorded(role, model, (record) => asked.push(record))])),
  };
  return { models, asked };
}

function recorded(role: string, model: Model, add: (record: AskedRecord) => void): Model {
  return {
    name: model.name,
    async generate(given, request) {
      const messages = [...given];
      const begun = performance.now();
      const reply = await model.generate(messages, request);
      add({ role, model: model.name, ...reply, ms: performance.now() - begun, waitMs: 0, attempts: 1, messages });
      return reply;
    },
  };
}
