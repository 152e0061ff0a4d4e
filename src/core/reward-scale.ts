/** Whether the held-out rewards of two trainings, or of an evaluation and one of a training, have a common scale: those of one version of an environment on one data set have. */
import { canonicalJson } from './canonical-json.ts';
import { differingFiles } from './environment-version.ts';
import { firstNames } from './first-names.ts';
import { differingSettings, type RecordedSettings } from './setting-differences.ts';
import { isObject } from '../schemas/is-object.ts';

interface Scaled {
  /** The letter of its group. */
  readonly name: string;
  /** As recorded, with the versions of its environment (`withEnvironmentVersion`); null for a training of which nothing is on file. */
  readonly config: RecordedSettings | null;
}

interface Evaluated {
  readonly id: string | null;
  /** Those of the evaluation's environment. */
  readonly args: RecordedSettings;
}

/** @param config of a training, or of an evaluation */
export function evaluatedEnvironment(config: RecordedSettings | null): Evaluated {
  const table = (value: unknown): RecordedSettings => (isObject(value) ? value : {});
  const { env_id: evaluated, env_args: given } = config ?? {};
  if (typeof evaluated === 'string') return { id: evaluated, args: table(given) };
  const { id, args, eval_args: evalArgs } = table(config?.['environment']);
  return { id: typeof id === 'string' ? id : null, args: { ...table(args), ...table(evalArgs) } };
}

/** Says why the rewards of the two cannot be compared; null if they can. */
export function scaleProblem(first: Scaled, second: Scaled): string | null {
  const [a, b] = [evaluatedEnvironment(first.config), evaluatedEnvironment(second.config)];
  if (a.id === null || b.id === null) return null;
  if (!isSameEnvironment(a.id, b.id))
    return `${first.name} is evaluated on ${a.id} and ${second.name} on ${b.id}, and rewards of different environments have different scales`;
  const [data, other] = [a.args['dataset'], b.args['dataset']].map((name) =>
    name === undefined ? 'its default data set' : `the data set ${JSON.stringify(name)}`,
  );
  return data === other ? versionProblem(first, second) : `${first.name} is evaluated on ${data} and ${second.name} on ${other}`;
}

/** Says that a file which may decide the reward had other contents for each of the two, or that a training has changed it since; null if neither is known. */
export function versionProblem(first: Scaled, second: Scaled): string | null {
  const older = [first, second].map(({ config }) => olderSetup(config));
  if (older[0] !== older[1])
    return `${older[0] === null ? second.name : first.name} was played before the environment or the settings of its training's evaluation changed, so its rewards have another scale`;
  const files = differingVersions(first, second);
  if (files.length === 0) return null;
  const [a, b] = [first.name, second.name];
  return `${a} and ${b} were scored by different versions of their environment (${firstNames(files)} changed), and rewards of different environments have different scales`;
}

function differingVersions(first: Scaled, second: Scaled): string[] {
  const [a, b] = [first, second].map(({ config }) => versionsIn(config));
  const own = [differingIn(a!.own, b!.own), differingIn(a!.rubric, b!.rubric)].flat();
  const [given, other] = [first, second].map(({ config }) => evaluatedEnvironment(config).args);
  // An argument that names another file is a setting that differs, which `argumentsNote` says.
  const isSame = (key: string) => canonicalJson(valueAt(given!, key)) === canonicalJson(valueAt(other!, key));
  const named = Object.entries(a!.named).filter(([key]) => typeof b!.named[key] === 'string' && isSame(key));
  return [...own, ...named.flatMap(([key, version]) => differingFiles(String(version), String(b!.named[key])))];
}

/** None if one of the two is not known. */
function differingIn(first: string | null, second: string | null): string[] {
  return first === null || second === null ? [] : differingFiles(first, second);
}

interface Versions {
  readonly own: string | null;
  readonly rubric: string | null;
  readonly named: RecordedSettings;
}

function versionsIn(config: RecordedSettings | null): Versions {
  const environment = isObject(config?.['environment']) ? config['environment'] : {};
  const { version, rubric_version: rubric, argument_versions: named } = environment;
  const textOrNull = (value: unknown) => (typeof value === 'string' ? value : null);
  return { own: textOrNull(version), rubric: textOrNull(rubric), named: isObject(named) ? named : {} };
}

/** The number of the setup; null for an evaluation with the setup that its run has now. */
function olderSetup(config: RecordedSettings | null): number | null {
  const { older_setup: setup } = isObject(config?.['environment']) ? config['environment'] : {};
  return typeof setup === 'number' ? setup : null;
}

/** @param key dotted */
function valueAt(args: RecordedSettings, key: string): unknown {
  return key.split('.').reduce<unknown>((value, name) => (isObject(value) ? value[name] : null), args) ?? null;
}

/** Says that the configured numbers of held-out rows differ, for a reader who cannot see the rows themselves; null if they do not. */
export function rowsProblem(first: Scaled, second: Scaled): string | null {
  const [a, b] = [first, second].map(({ config }) => {
    const evaluation = config?.['evaluation'];
    const examples = isObject(evaluation) ? evaluation['examples'] : undefined;
    return typeof examples === 'number' ? `${examples} held-out rows` : 'all held-out rows';
  });
  if (a === b) return null;
  return `${first.name} is evaluated on ${a} and ${second.name} on ${b}, so their held-out rewards come from different questions`;
}

/** The same module may be named by other paths. */
function isSameEnvironment(a: string, b: string): boolean {
  const ends = [a, b].map((id) => id.split(/[/\\]/).at(-1)!);
  return a === b || (/[/\\]/.test(a) && /[/\\]/.test(b) && ends[0] === ends[1]);
}

/** Names the arguments of the evaluation's environment that differ, because some of them change what earns reward; null if none do. */
export function argumentsNote(first: Scaled, second: Scaled): string | null {
  const differing = differingSettings([first, second].map(({ config }) => evaluatedEnvironment(config).args));
  if (differing.length === 0) return null;
  const names = differing.map(({ key }) => key).join(', ');
  return `arguments of the environment differ (${names}); if they change what earns reward, compare a metric instead: --metric NAME`;
}
