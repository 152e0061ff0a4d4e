import { stat } from 'node:fs/promises';
import { TOKENIZER_PROBE_TEXT, tokenizerHash } from '../../clients/vllm-probe.ts';
import { ConfigError } from '../../core/errors.ts';
import { openLocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import { FileSource } from '../../viewing/file-source.ts';
import type { RunLine } from '../../viewing/view-wire.ts';
import { systemText } from '../../files/system-text.ts';

export interface OpenedView {
  readonly source: FileSource;
  readonly runs: readonly RunLine[];
  /** What could not be searched for runs, one line each. */
  readonly unread: readonly string[];
}

/** Finds the runs of a folder. Throws ConfigError for a missing folder, one without runs, and a tokenizer that cannot be read. */
export async function openView({ folder, tokenizer }: { readonly folder: string; readonly tokenizer: string | undefined }): Promise<OpenedView> {
  const about = await stat(folder).catch((cause: NodeJS.ErrnoException) => {
    const isMissing = cause.code === 'ENOENT' || cause.code === 'ENOTDIR';
    const problem = isMissing ? `The folder ${folder} does not exist` : `Cannot read ${folder}: ${systemText(cause)}`;
    throw new ConfigError(`${problem}. Name the folder that holds your runs, or make a run first: vf-eval search-r1 -n 50`, { cause });
  });
  if (!about.isDirectory()) throw new ConfigError(`${folder} is a file. Name the folder of a run, or one that holds runs.`);
  if (tokenizer !== undefined) await openLocalTokenizer(tokenizer);
  const source = new FileSource({
    root: folder,
    label: folder,
    tokenizers: {
      given: tokenizer ?? null,
      hashOf: (opened) => tokenizerHash(opened.encode(TOKENIZER_PROBE_TEXT, { addSpecialTokens: false })),
    },
  });
  const { runs, unread } = await source.runs();
  if (runs.length === 0 && unread.length > 0) throw new ConfigError(`${folder} holds no run that can be read: ${unread[0]}`);
  if (runs.length === 0) throw new ConfigError(`${folder} holds no run. Name another folder, or make a run first: vf-eval search-r1 -n 50`);
  return { source, runs, unread };
}
