/** Builds the environment from its arguments. The only module of this folder that loads rows, reads files and opens engines. */
import { fileURLToPath } from 'node:url';
import { ConfigError, type LoadContext } from 'vf-search';
import { openSource, readDocument, type SearchContext } from 'vf-search/environment-kit';
import { type GrpoArguments, parseArguments } from './arguments.ts';
import { GrpoEnv } from './grpo-env.ts';
import { questionsOf } from './load-questions.ts';
import { MockSearchEngine, retrieverEngine, type SearchEngine } from './search-engine.ts';
import { settingsOfKeys } from './training-settings.ts';

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', ...rest }: Partial<LoadContext> = {},
): Promise<GrpoEnv> {
  const context = { ...rest, env, purpose };
  const parsed = await parseArguments(args, env);
  const isTraining = purpose === 'training';
  const { rows, trainRows, split, notices, provenance } = await questionsOf(parsed, context);
  const engine = await openEngine(parsed, context);
  try {
    return new GrpoEnv({
      rows,
      ...(trainRows === undefined ? {} : { trainRows }),
      engine,
      config: parsed.config,
      onFailure: parsed.onFailure,
      failedSearches: isTraining ? 'reject' : 'count',
      prompt: parsed.prompt,
      ...(parsed.maxObsLength === null ? {} : { observationTokens: parsed.maxObsLength }),
      name: parsed.dataset,
      notices: [...noticesFor(parsed, isTraining), ...notices],
      provenance: {
        ...provenance,
        search_engine: engine.name,
        arguments: { ...parsed.named, data_split: split },
      },
    });
  } catch (error) {
    await engine.close();
    throw error;
  }
}

async function openEngine({ engine, keywords, topk, ...source }: GrpoArguments, context: SearchContext): Promise<SearchEngine> {
  if (engine === 'mock') return openMock(keywords);
  return retrieverEngine(await openSource({ ...source, engine }, context), { topk });
}

/** The rules of the bundled data set by keyword, or a file of the user's own. */
async function openMock(path: string | null): Promise<SearchEngine> {
  const file = path ?? fileURLToPath(new URL('keywords.json', import.meta.url));
  const knowledge = await readDocument(file);
  if (typeof knowledge !== 'object' || knowledge === null || Array.isArray(knowledge))
    throw new ConfigError(`${file} must hold keywords with their texts, as in {"quiet hours": "Quiet hours begin at 22:00."}`);
  return new MockSearchEngine(knowledge as Readonly<Record<string, string>>, { name: `keywords ${path ?? 'rule-lookup'}` });
}

/** Warnings about unwise values belong to training; an evaluation names its policy elsewhere, so only the given keys get a warning. */
function noticesFor({ warnings, idle, givenKeys, config, onFailure }: GrpoArguments, isTraining: boolean): string[] {
  const notices = [...warnings.filter(({ key }) => givenKeys.includes(key)).map(({ text }) => `${text}.`), ...idle];
  const settings = settingsOfKeys(config, givenKeys).map(({ key, value }) => `${key} = ${JSON.stringify(value)}`);
  if (givenKeys.includes('num_epochs')) settings.push(`steps for ${config.num_epochs} passes over the rows`);
  if (settings.length > 0 && !isTraining) notices.push(`Keys of training change nothing in an evaluation; vf-train sets ${settings.join(', ')}.`);
  if (onFailure === 'empty')
    notices.push('on_failure is "empty": a failed search is an empty result; such rollouts are counted as failed_searches and never trained on.');
  return notices;
}
