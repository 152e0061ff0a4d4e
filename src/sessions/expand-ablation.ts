/**
 * An `[[ablation]]` table as runs: one for each combination of the lists under `[ablation.sweep]`. Files of evaluations and of trainings share it; which keys there are is
 * for each of them to say.
 */
import { canonicalJson } from '../core/canonical-json.ts';
import { ConfigError } from '../core/errors.ts';
import { firstRepeated } from '../core/first-repeated.ts';
import { type LabelledSetting, settingLabel } from '../core/setting-differences.ts';
import { typeOf } from '../files/toml-text.ts';
import { countText } from '../reports/text/number-text.ts';
import { isObject } from '../schemas/is-object.ts';
import { hideSecrets } from '../transport/redact.ts';

type Table = Readonly<Record<string, unknown>>;

export interface SweptRun {
  /** The fixed settings with the swept ones, without `sweep`. */
  readonly table: Table;
  readonly values: readonly LabelledSetting[];
  /** `topk 3, temperature 0`, free of secrets. */
  readonly label: string;
}

export interface ExpandOptions {
  /** The place of the table, for errors: `[[ablation]] 1 of runs.toml`. */
  readonly where: string;
  /** The name that a key at the top of a table stands for. @default the key itself */
  readonly nameOf?: (key: string) => string;
}

/** Runs are played one after the other, so a larger sweep is certainly a mistake. */
const MOST_RUNS = 10_000;

interface Axis {
  readonly path: readonly string[];
  readonly values: readonly unknown[];
}

/**
 * The first key varies slowest. A key may be a table of keys, or dotted in quotes: `"optimizer.learning_rate"`.
 * Throws ConfigError for a sweep without a list, an empty list, a key that is also fixed, and more than 10,000 runs.
 */
export function expandAblation({ sweep = {}, ...fixed }: Table, { where, nameOf = (key) => key }: ExpandOptions): SweptRun[] {
  const axes = sweepAxes(sweep, { where, nameOf });
  if (axes.length === 0) throw new ConfigError(`[ablation.sweep] in ${where} has no list to sweep. Add one, or leave the table out.`);
  for (const { path } of axes) {
    if (!isSet(fixed, path, nameOf)) continue;
    throw new ConfigError(`${path.join('.')} in ${where} is both fixed and swept. Leave one out.`);
  }
  const runs = axes.reduce((product, { values }) => product * values.length, 1);
  if (runs > MOST_RUNS) {
    const sizes = axes.map(({ path, values }) => `${path.join('.')} (${values.length})`).join(' × ');
    throw new ConfigError(`The sweep in ${where} has ${countText(runs)} runs: ${sizes}. The limit is ${countText(MOST_RUNS)}; sweep fewer values.`);
  }
  let combinations: (readonly LabelledSetting[])[] = [[]];
  for (const { path, values } of axes) combinations = combinations.flatMap((before) => values.map((value) => [...before, { path, value }]));
  return combinations.map((values) => ({
    table: values.reduce<Table>((table, { path, value }) => withValue(table, path, { value, nameOf }), fixed),
    values,
    label: settingLabel(values.map(({ path, value }) => ({ path, value: hideSecrets(value, path.at(-1)) }))),
  }));
}

/** `settings`: all of a run but its name. They can differ in the file and mean the same: 1e-3 and 0.001, or a swept default. Throws ConfigError. */
export function refuseEqualRuns(runs: readonly { readonly label: string; readonly settings: object }[], where: string): void {
  const seen = new Map<string, number>();
  for (const [i, { label, settings }] of runs.entries()) {
    const key = canonicalJson(settings);
    const other = seen.get(key);
    seen.set(key, i);
    if (other === undefined) continue;
    throw new ConfigError(
      `Runs ${other + 1} (${runs[other]!.label}) and ${i + 1} (${label}) of ${where} have the same settings. Equal runs would count as two measurements; leave one out.`,
    );
  }
}

function sweepAxes(sweep: unknown, { where, nameOf }: Required<ExpandOptions>): Axis[] {
  if (!isObject(sweep)) throw new ConfigError(`[ablation.sweep] in ${where} must be a table of lists, got ${typeOf(sweep)}`);
  const axes = Object.entries(sweep).flatMap(([key, value]) => {
    const [first, ...rest] = key.split('.');
    return axesAt(value, [nameOf(first!), ...rest], where);
  });
  const twice = firstRepeated(axes.map(({ path }) => path.join('.')));
  if (twice !== undefined) throw new ConfigError(`${twice} is swept twice in ${where}. Leave one out.`);
  return axes;
}

function axesAt(value: unknown, path: readonly string[], where: string): Axis[] {
  if (isObject(value)) return Object.entries(value).flatMap(([key, inner]) => axesAt(inner, [...path, key], where));
  if (Array.isArray(value) && value.length > 0) return [{ path, values: value }];
  const got = Array.isArray(value) ? 'an empty list' : typeOf(value);
  throw new ConfigError(`sweep.${path.join('.')} in ${where} must be a list of values to try, got ${got}`);
}

/** The key of the table that stands for the name, which may be an alias. */
function keyFor(table: Table, name: string, nameOf: (key: string) => string): string {
  return Object.keys(table).find((key) => nameOf(key) === name) ?? name;
}

function isSet(table: Table, [name, ...inner]: readonly string[], nameOf: (key: string) => string): boolean {
  const found = inner.reduce<unknown>((value, key) => (isObject(value) ? value[key] : undefined), table[keyFor(table, name!, nameOf)]);
  return found !== undefined;
}

function withValue(
  table: Table,
  path: readonly string[],
  { value, nameOf }: { readonly value: unknown } & Pick<Required<ExpandOptions>, 'nameOf'>,
): Table {
  const [name, ...inner] = path;
  const key = keyFor(table, name!, nameOf);
  const before = isObject(table[key]) ? table[key] : {};
  return { ...table, [key]: inner.length === 0 ? value : withValue(before, inner, { value, nameOf: (same) => same }) };
}
