/** The files of a finished run that are published, with a card, and without the addresses of servers. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { PushedFile } from '../../data/hub-push.ts';
import { jsonFieldsAt } from '../../files/json-file.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { hideAddresses, mapStrings } from '../../transport/redact.ts';
import { resultsCard, type ResultsCardFacts } from './results-card.ts';

const FILES: Readonly<Record<string, string>> = {
  'results.jsonl': 'one rollout per line: prompt, completion, answer, reward, metrics, error',
  'tokens.jsonl': 'token ids, loss mask and log-probs of the rollouts',
  'asked.jsonl': 'calls of models other than the policy',
  'trace.jsonl': 'what happened in the rollouts, in order',
  'metadata.json': 'settings, versions and averages',
};

export interface ResultsFilesOptions extends Omit<ResultsCardFacts, 'files'> {
  readonly redact: (text: string) => string;
}

export async function resultsFiles({ redact, ...facts }: ResultsFilesOptions): Promise<PushedFile[]> {
  const { directory } = facts.summary;
  const names = Object.keys(FILES).filter((name) => existsSync(join(directory, name)));
  const files = names.map((name) => ({ name, about: FILES[name]! }));
  const card = hideAddresses(redact(resultsCard({ ...facts, files })));
  return [
    { path: 'README.md', content: { text: card } },
    ...(await Promise.all(names.map((name) => pushedFile(directory, name)))),
    ...imagesOf(directory),
  ];
}

/** The address of a server is of no use to others, and may be private. */
async function pushedFile(directory: string, name: string): Promise<PushedFile> {
  const file = join(directory, name);
  if (name !== 'metadata.json') return { path: name, content: { file } };
  const metadata = jsonFieldsAt(file);
  const sessions = Array.isArray(metadata['sessions']) ? metadata['sessions'].map((each) => ({ ...fieldsOf(each), base_url: null })) : undefined;
  return { path: name, content: { text: `${JSON.stringify(mapStrings({ ...metadata, base_url: null, sessions }, hideAddresses), null, 2)}\n` } };
}

function imagesOf(directory: string): PushedFile[] {
  const folder = join(directory, 'images');
  const names = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile()) : [];
  return names.map(({ name }) => ({ path: `images/${name}`, content: { file: join(folder, name) } }));
}
