/**
 * The specification's configuration: its sixteen names and defaults, and four that it implies (`format_penalty`, `not_found_reward`, `production`,
 * `strict`). The environment itself uses the rewards, `max_tokens` and `strict`; the other keys are settings of training and of the policy, which
 * `vf-train` has under its own names. A given key that can have no effect gets a notice. Pure: `arguments.ts` reads files.
 */

/** The configuration, by the names of the document. */
export interface SearchR1Config {
  readonly use_openai: boolean;
  /** Taken from the variable `OPENAI_API_KEY` if it is empty. Never written to a file. */
  readonly openai_api_key: string;
  readonly openai_model: string;
  readonly model_name_or_path: string;
  readonly device: 'cuda' | 'cpu';
  /** Tokens of the policy in a whole trajectory, at least 1. */
  readonly max_tokens: number;
  /** At least 2. */
  readonly group_size: number;
  readonly update_times: number;
  /** Above 0 and below 1; a value outside 0.1 to 0.3 gets a warning. */
  readonly clip_epsilon: number;
  /** At least 0. */
  readonly beta: number;
  readonly learning_rate: number;
  readonly batch_size: number;
  readonly num_epochs: number;
  readonly max_grad_norm: number;
  readonly format_reward: number;
  readonly answer_reward: number;
  readonly exact_match_bonus: number;
  readonly log_interval: number;
  readonly format_penalty: number;
  readonly not_found_reward: number;
  /** A model below Qwen3-4B is an error, not a warning. */
  readonly production: boolean;
  /** The format reward is the strict one. */
  readonly strict: boolean;
}

export type ConfigKey = keyof SearchR1Config;

/** A value that is allowed but unwise. */
export interface ConfigWarning {
  readonly key: ConfigKey;
  readonly text: string;
}

export type ParsedConfig =
  | { readonly ok: true; readonly config: SearchR1Config; readonly warnings: readonly ConfigWarning[] }
  /** `key`: the first key that cannot be used; `problem` names it, with its value. */
  | { readonly ok: false; readonly key: string; readonly problem: string };

interface Setting {
  readonly value: boolean | number | string;
  /** Completes "must be". */
  readonly expected: string;
  accepts(value: unknown): boolean;
}

const flag = (value: boolean): Setting => ({ value, expected: 'true or false', accepts: (v) => typeof v === 'boolean' });
const text = (value: string): Setting => ({ value, expected: 'text', accepts: (v) => typeof v === 'string' });
const number = (value: number): Setting => ({ value, expected: 'a finite number', accepts: Number.isFinite });
const above = (value: number): Setting => ({ value, expected: 'a number above 0', accepts: (v) => Number.isFinite(v) && (v as number) > 0 });
const count = (value: number, least = 1): Setting => ({
  value,
  expected: `an integer of at least ${least}`,
  accepts: (v) => Number.isInteger(v) && (v as number) >= least,
});

/** Every key with its default, in the order of the document. */
const SETTINGS: Readonly<Record<ConfigKey, Setting>> = {
  use_openai: flag(false),
  openai_api_key: text(''),
  openai_model: text('gpt-4o-mini'),
  model_name_or_path: text('Qwen/Qwen2.5-0.5B-Instruct'),
  device: { value: 'cuda', expected: '"cuda" or "cpu"', accepts: (v) => v === 'cuda' || v === 'cpu' },
  max_tokens: count(500),
  group_size: count(2, 2),
  update_times: count(4),
  clip_epsilon: { value: 0.2, expected: 'a number between 0 and 1', accepts: (v) => typeof v === 'number' && v > 0 && v < 1 },
  beta: { value: 0.1, expected: 'a number of at least 0', accepts: (v) => Number.isFinite(v) && (v as number) >= 0 },
  learning_rate: above(1e-5),
  batch_size: count(1),
  num_epochs: count(10),
  max_grad_norm: above(0.5),
  format_reward: number(0.5),
  answer_reward: number(1),
  exact_match_bonus: number(2),
  log_interval: count(1),
  format_penalty: number(-1),
  not_found_reward: number(0.5),
  production: flag(false),
  strict: flag(true),
};

/** Names of all keys, in the order of the document. */
export const CONFIG_KEYS = Object.keys(SETTINGS) as readonly ConfigKey[];

/**
 * Checks a configuration and completes it with the defaults. Reports the first unknown key, else the first bad value in the order of the document, else a model
 * or a key that is missing.
 * @param given by the names of the document
 * @param env environment variables: `OPENAI_API_KEY`
 * @example parseConfig({ group_size: 1 }) // { ok: false, key: 'group_size', problem: 'group_size must be an integer of at least 2, got 1' }
 */
export function parseConfig(given: Readonly<Record<string, unknown>>, env: Readonly<Record<string, string | undefined>> = {}): ParsedConfig {
  const failed = (key: string, problem: string): ParsedConfig => ({ ok: false, key, problem });
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(SETTINGS, key));
  if (unknown !== undefined) return failed(unknown, `The key ${JSON.stringify(unknown)} is unknown. The keys are ${CONFIG_KEYS.join(', ')}`);
  for (const key of CONFIG_KEYS) {
    if (!Object.hasOwn(given, key) || SETTINGS[key].accepts(given[key])) continue;
    const shown = key === 'openai_api_key' ? '' : `, got ${JSON.stringify(given[key])}`;
    return failed(key, `${key} must be ${SETTINGS[key].expected}${shown}`);
  }
  const defaults = Object.fromEntries(CONFIG_KEYS.map((key) => [key, SETTINGS[key].value]));
  const merged = { ...defaults, ...given } as unknown as SearchR1Config;
  const config = { ...merged, openai_api_key: merged.openai_api_key || (env['OPENAI_API_KEY'] ?? '') };
  const isLarge = isAtLeastQwen3Of4B(config.model_name_or_path);
  if (config.production && !isLarge)
    return failed(
      'model_name_or_path',
      `model_name_or_path must be Qwen3-4B or larger in production, and its name must say so, got ${JSON.stringify(config.model_name_or_path)}`,
    );
  if (config.use_openai && config.openai_api_key === '') return failed('openai_api_key', 'use_openai needs openai_api_key. Set OPENAI_API_KEY');
  return { ok: true, config, warnings: warningsFor(config, isLarge) };
}

function warningsFor({ clip_epsilon, model_name_or_path }: SearchR1Config, isLarge: boolean): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  if (clip_epsilon < 0.1 || clip_epsilon > 0.3)
    warnings.push({ key: 'clip_epsilon', text: `clip_epsilon is ${clip_epsilon}, outside the usual 0.1 to 0.3` });
  if (!isLarge) warnings.push({ key: 'model_name_or_path', text: `${model_name_or_path} is not Qwen3-4B or larger: for tests only` });
  return warnings;
}

/** Lines about given values that ask for something that is not done here. The defaults ask for what is done. */
export function idleNotices({ log_interval = 1, use_openai = false, openai_model, openai_api_key = '' }: Partial<SearchR1Config>): string[] {
  const model = openai_model ?? String(SETTINGS.openai_model.value);
  const notices: string[] = [];
  if (log_interval !== 1) notices.push(`log_interval is ${log_interval}, but every step is logged: metrics.jsonl has a row for each.`);
  if (use_openai) notices.push(`use_openai does not choose the policy here. Play ${model} with -p openai -m ${model}.`);
  else if (model !== SETTINGS.openai_model.value) notices.push(`openai_model is ${model}, but without use_openai it changes nothing.`);
  if (openai_api_key !== '') notices.push('openai_api_key is sent to no server: -p openai reads the variable OPENAI_API_KEY.');
  return notices;
}

/** A size in a name, without the active parameters of a mixture (`A3B`) and without bits (`4bit`). */
const SIZE = /(?<![a-z\d.])(\d+(?:\.\d+)?)b(?![a-z\d])/gi;
/** Names of large models that have no size in them: Qwen3-Max, Qwen3-Coder-Next, Qwen3.5-Plus. */
const LARGE_WITHOUT_SIZE = /^(?:[-_:](?:coder|vl|omni))?[-_:](?:max|next|plus)\b/i;

/**
 * By the name alone, of any organisation, quantised or adapted: `unsloth/Qwen3-14B-bnb-4bit`, `qwen3-coder:30b`, `me/search-r1-qwen3-4b-lora`. The first size after the
 * family counts, and only if there is none, one before it. Qwen3.5 and later releases of the family count too; models that write no text do not.
 */
function isAtLeastQwen3Of4B(model: string): boolean {
  const name = model
    .replace(/[/\\]+$/, '')
    .split(/[/\\]/)
    .at(-1)!;
  const [family] = /qwen[-_ ]?3(?:[._p]\d+(?![\d.]*b\b))?/i.exec(name) ?? [];
  if (family === undefined || /embed|rerank|asr|tts|guard/i.test(name)) return false;
  const at = name.indexOf(family);
  const [before, after] = [name.slice(0, at), name.slice(at + family.length)];
  const [size] = [...after.matchAll(SIZE), ...before.matchAll(SIZE)].map(([, digits]) => Number(digits));
  return size === undefined ? LARGE_WITHOUT_SIZE.test(after) : size >= 4;
}
