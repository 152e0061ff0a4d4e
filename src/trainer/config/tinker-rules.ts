/** What the Tinker API cannot do is refused before anything is asked of a service. */
import { trainingConfigSchema, type TrainingConfigWire } from '../../schemas/training-config.ts';
import type { ConfigRule } from './check-config.ts';

type Backend = TrainingConfigWire['backend'];

const DEFAULTS = trainingConfigSchema.properties.backend.properties;
const isTinker = ({ backend }: TrainingConfigWire) => backend.kind === 'tinker';

/** The settings of the service, which no other backend has. */
const OF_SERVICE = ['base_url', 'api_key_var', 'model', 'wire', 'reduction', 'pad_to', 'ttl_hours'] as const satisfies readonly (keyof Backend)[];
/** The settings of a computation on this machine. */
const OF_MACHINE = ['python', 'device', 'devices', 'sharding', 'dtype', 'threads'] as const satisfies readonly (keyof Backend)[];

/** The layers of each choice that the API has: attention, MLP, both. (The unembedding is never trained here: servers of adapters rarely take one.) */
const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj'];
const MLP = ['gate_proj', 'up_proj', 'down_proj'];
const TARGETS: readonly (readonly string[])[] = [ATTENTION, MLP, [...ATTENTION, ...MLP]];
/** The only one that services use. */
const ALPHA = 32;

function isTinkerTargets(targets: readonly string[]): boolean {
  return TARGETS.some((set) => set.length === targets.length && set.every((name) => targets.includes(name)));
}

export const TINKER_RULES: readonly ConfigRule[] = [
  ...OF_SERVICE.map((name): ConfigRule => ({
    key: `backend.${name}`,
    wrong: (config) => !isTinker(config) && config.backend[name] !== DEFAULTS[name].default,
    problem: ({ backend }) => `backend.${name} is for backend.kind = "tinker", and must be left out with "${backend.kind}"`,
  })),
  ...OF_MACHINE.map((name): ConfigRule => ({
    key: `backend.${name}`,
    wrong: (config) => isTinker(config) && config.backend[name] !== DEFAULTS[name].default,
    problem: ({ backend }) =>
      `backend.${name} must be left out with backend.kind = "tinker", because a service trains; got ${JSON.stringify(backend[name])}`,
  })),
  {
    key: 'policy.base_url',
    wrong: (config) => isTinker(config) && (config.policy.base_url ?? config.policy.launch ?? config.policy.embedded) !== null,
    problem: () =>
      'policy.base_url, [policy.launch] and [policy.embedded] must be left out with backend.kind = "tinker": the service that trains also samples',
  },
  {
    key: 'rollouts.temperature',
    wrong: (config) => isTinker(config) && config.rollouts.temperature !== 1,
    problem: ({ rollouts }) =>
      `rollouts.temperature must be 1 with backend.kind = "tinker", because the Tinker API trains on log-probs at temperature 1 only; got ${rollouts.temperature}`,
  },
  {
    key: 'algorithm.entropy_coefficient',
    wrong: (config) => isTinker(config) && config.algorithm.entropy_coefficient !== 0,
    problem: ({ algorithm }) =>
      `algorithm.entropy_coefficient must be 0 with backend.kind = "tinker", because the Tinker API has no entropies; got ${algorithm.entropy_coefficient}`,
  },
  {
    key: 'lora.alpha',
    wrong: (config) => isTinker(config) && config.lora.alpha !== ALPHA,
    problem: ({ lora }) => `lora.alpha must be ${ALPHA} with backend.kind = "tinker", because the Tinker API takes no other; got ${lora.alpha}`,
  },
  {
    key: 'lora.targets',
    wrong: (config) => isTinker(config) && !isTinkerTargets(config.lora.targets),
    problem: ({ lora }) =>
      `lora.targets must be all layers of attention (${ATTENTION.join(', ')}), all of the MLP (${MLP.join(', ')}) or both with backend.kind = "tinker", got ${lora.targets.join(', ')}`,
  },
  {
    key: 'model.initial_adapter',
    wrong: (config) => isTinker(config) && config.model.initial_adapter !== null,
    problem: ({ model }) =>
      `model.initial_adapter must be left out with backend.kind = "tinker", because no adapter can be sent to a service; got "${model.initial_adapter}"`,
  },
];
