/**
 * The options of `vf-eval`, which are also the keys of its TOML files. Names are those of verifiers v0 where v0 has the option; `docs/vf-eval.md` lists the
 * differences of meaning.
 */
import { PROVIDER_NAMES } from '../../sessions/policy/providers.ts';
import { file, flag, names, number, oneOf, optionalFolder, runName, text, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { ENVIRONMENT_ARGUMENTS, ENVIRONMENTS_FOLDER, MAX_WAIT, ROLE, RUNS_FOLDER, STRICT_STOPS } from '../options/shared-options.ts';
import { headers, object } from '../options/table-kinds.ts';

/** Its options control the display of results, and may be combined with a TOML file of runs. */
export const DISPLAY = 'Display';

/** The policy server. */
export const POLICY = {
  model: text('model name, or an alias of endpoints.toml', { letter: 'm', placeholder: 'NAME' }),
  provider: text(
    `base URL and key variable by name: ${PROVIDER_NAMES.join(', ')}; or a module (./my-policy.ts) that exports a model of the AI SDK as policy`,
    {
      letter: 'p',
      placeholder: 'NAME',
      completion: PROVIDER_NAMES,
    },
  ),
  apiBaseUrl: text('any OpenAI-compatible server, up to and including /v1', { letter: 'b', placeholder: 'URL' }),
  apiKeyVar: text('environment variable that holds the API key', { letter: 'k', placeholder: 'VAR' }),
  apiClientType: text('auto, tokens or chat', {
    placeholder: 'TYPE',
    otherwise: 'auto: what the server supports',
    completion: ['auto', 'tokens', 'chat'],
  }),
  stream: oneOf(['auto', 'true', 'false'], 'ask a chat API for streams', {
    otherwise: 'auto: once it refuses other requests, or a gateway cuts a silent connection',
  }),
  endpointsPath: file('aliases and replicas', { letter: 'e', otherwise: './configs/endpoints.toml' }),
  header: headers('HTTP header sent to the server'),
};

/** Of each generation. */
export const SAMPLING = {
  maxTokens: wholeNumber('new tokens per generation', { letter: 't', from: 1, otherwise: 'the environment decides' }),
  temperature: number('0 is greedy', { letter: 'T', from: 0, to: 100, otherwise: "a chat API's own, else 1" }),
  topP: number('probability of the tokens to sample from', { above: 0, to: 1, otherwise: "a chat API's own, else 1" }),
  samplingArgs: object('further fields of the request; override -t, -T and --top-p; null leaves one out', {
    letter: 'S',
    example: '{"top_k": 20}',
  }),
};

/** None has a default of its own: `sessions` knows the defaults, and the settings at the top of a file apply to runs without their own. */
export const EVAL_OPTIONS = groups({
  Environment: {
    ...ENVIRONMENT_ARGUMENTS,
    extraEnvKwargs: object('further arguments, which override those of -a', { letter: 'x', example: '{"max_turns": 2}' }),
    ...ENVIRONMENTS_FOLDER,
  },
  Policy: { ...POLICY, ...ROLE },
  Sampling: {
    ...SAMPLING,
    overrideSampling: flag('the settings of sampling hold also where an agent asks for others'),
    ...STRICT_STOPS,
  },
  Rollouts: {
    numExamples: wholeNumber('rows to play, -1 for all', {
      letter: 'n',
      from: 1,
      or: { value: -1, means: 'all' },
      otherwise: "the environment's, else 5",
    }),
    rolloutsPerExample: wholeNumber('rollouts per row; above 1 adds pass@k', {
      letter: 'r',
      from: 1,
      to: 1_000_000,
      otherwise: "the environment's, else 1",
    }),
    seed: wholeNumber('seeds --shuffle, the baseline and -p embedded; never sent to other servers', { otherwise: '0' }),
    shuffle: flag('play the rows in random order'),
    shuffleSeed: wholeNumber('seed of the random order', { otherwise: '--seed' }),
    maxConcurrent: wholeNumber('rollouts in flight at once', { letter: 'c', from: 1, otherwise: '32' }),
    maxScoring: wholeNumber('rollouts scored at once, in addition to those in flight', { from: 1, otherwise: '-c' }),
    scoringTimeout: number('seconds to compute the rewards of a rollout, 0 for no limit', { from: 0, placeholder: 'S', otherwise: '--timeout' }),
    timeout: number('seconds per rollout, 0 for no limit', { from: 0, placeholder: 'S', otherwise: '0' }),
    maxRetries: wholeNumber('retries after a transient failure', { otherwise: '3' }),
    ...MAX_WAIT,
    maxCost: number('start no further rows once the run has cost this many US dollars; needs prices in endpoints.toml', {
      above: 0,
      placeholder: 'USD',
      otherwise: 'no limit',
    }),
    independentScoring: flag('score each rollout alone, without group rewards', { letter: 'i' }),
  },
  Results: {
    name: runName('name of the run in lists, comparisons and cards; -R keeps it or changes it'),
    ...RUNS_FOLDER,
    saveResults: flag('accepted for compatibility with v0; results are always saved', { letter: 's' }),
    push: text('upload the finished run to this data set of the Hugging Face hub, a private one if it is new; the token is in $HF_TOKEN', {
      placeholder: 'OWNER/NAME',
    }),
    stateColumns: names("keys of the episode's state to save as columns", { letter: 'C' }),
    resume: optionalFolder('continue a run: the one in DIR, or the newest that matches', { letter: 'R' }),
    allowChanges: flag('with -R: continue even if files that the settings name, such as an adapter or a corpus, have changed'),
  },
  [DISPLAY]: {
    abbreviatedSummary: flag('figures only, no transcript', { letter: 'A' }),
    verbose: flag('whole transcript, every failure, stack traces', { letter: 'v' }),
    json: flag('print only the summary on stdout, as one JSON object'),
    plain: flag('no colour and no live progress; always so without a terminal'),
    dryRun: flag('open everything, print what would run and the first prompt, and check rows, prompts, server and disk; plays and writes nothing'),
  },
});

/** The values of the options that were given. */
export type Settings = OptionValues<typeof EVAL_OPTIONS>;
