/**
 * The one table of what adapter_config.json may say. An adapter is plain LoRA, W + scale · B A with one rank and one scale, or a field says what else it computes, and it is
 * refused by that field's name: by the engine, by both gradient backends before they start, and by the publisher. Source: LoraConfig of PEFT 0.21.
 */
import { isObject } from '../../schemas/is-object.ts';
import { type JsonObject, shown } from '../model/json-file.ts';

interface AdapterFault {
  readonly key: string;
  /** A value of the field that has no effect. */
  readonly neutral: unknown;
  /** What the field makes of the adapter, and what to do instead. */
  readonly reason: string;
}

interface FieldRule {
  readonly keys: RegExp;
  /** The values that have no effect; null and absent have none either. */
  readonly neutral: readonly unknown[];
  /** The field whose value has no effect as a value of each layer. */
  readonly same?: string;
  readonly effect: string;
  /** @default merge it */
  readonly remedy?: string;
}

const MERGE = 'Merge it into its base (PEFT: merge_and_unload, then save_pretrained) and use the merged model instead';
const CONVERT = 'Save it as plain LoRA (PEFT: save_pretrained with path_initial_model_for_weight_conversion), or merge it into its base';

const RULES: readonly FieldRule[] = [
  {
    keys: /^task_type$/,
    neutral: ['CAUSAL_LM'],
    effect: 'it was trained for another task than generating text',
    remedy: 'Use an adapter that was trained to generate text',
  },
  { keys: /^use_dora$/, neutral: [false], effect: 'DoRA also scales every layer by a trained magnitude' },
  {
    keys: /^init_lora_weights$/,
    // With PEFT's others (pissa, olora, corda, loftq, lora_ga), the adapter fits a base whose own weights they changed.
    neutral: [true, false, 'gaussian', 'eva', 'orthogonal'],
    effect: "this initialisation changed the base's own weights",
    remedy: CONVERT,
  },
  {
    keys: /^alora_invocation_tokens$/,
    neutral: [[]],
    effect: 'an activated LoRA acts only after its invocation tokens',
    remedy: 'Use a plain LoRA',
  },
  { keys: /^modules_to_save$/, neutral: [[]], effect: 'whole layers were trained in addition to LoRA' },
  { keys: /^bias$/, neutral: ['none'], effect: 'biases were trained in addition to LoRA' },
  { keys: /^lora_bias$/, neutral: [false], effect: 'biases were trained in addition to LoRA' },
  { keys: /^rank_pattern$/, neutral: [{}], same: 'r', effect: 'some layers have a rank of their own' },
  { keys: /^alpha_pattern$/, neutral: [{}], same: 'lora_alpha', effect: 'some layers have an alpha of their own' },
  { keys: /^fan_in_fan_out$/, neutral: [false], effect: 'its matrices are for transposed weights', remedy: 'Use an adapter of this model' },
  { keys: /^(target_parameters|trainable_token_indices|layer_replication)$/, neutral: [[], {}], effect: 'it adapts more than linear layers' },
  // A field of a later PEFT, too. Those of an initialisation have no effect afterwards; `use_rslora` is a scale.
  { keys: /^use_(?!rslora$)/, neutral: [false], effect: 'it computes more than LoRA' },
  { keys: /^(?!(eva|corda|loftq|lora_ga|runtime)_).*_config$/, neutral: [{}], effect: 'it computes more than LoRA' },
];

/** `use_dora in PATH must be false or absent, got true: ...`, as every reader of an adapter says it. */
export function adapterFaultText(path: string, config: JsonObject): string | null {
  const fault = adapterFault(config);
  if (fault === null) return null;
  const { key, neutral, reason } = fault;
  return `${key} in ${path} must be ${JSON.stringify(neutral)} or absent, got ${shown(config[key])}: ${reason}`;
}

/** The first field with which an adapter is not plain LoRA; null if it is. */
function adapterFault(config: JsonObject): AdapterFault | null {
  for (const { keys, neutral, same, effect, remedy = MERGE } of RULES) {
    const isOfAll = (value: unknown) => same !== undefined && isObject(value) && Object.values(value).every((each) => each === config[same]);
    const key = Object.keys(config).find((name) => keys.test(name) && !isNeutral(config[name], neutral) && !isOfAll(config[name]));
    if (key !== undefined) return { key, neutral: neutral[0], reason: `${effect}. ${remedy}` };
  }
  return null;
}

function isNeutral(value: unknown, neutral: readonly unknown[]): boolean {
  return value === null || neutral.some((other) => JSON.stringify(other) === JSON.stringify(value));
}
