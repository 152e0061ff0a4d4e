import type { OpenPipeline } from '../../pipelines/open-pipeline.ts';
import { openPipeline } from '../../registry/open-pipeline.ts';
import { settingCredentials } from '../../transport/credentials.ts';
import { shownWords } from '../../transport/shown-words.ts';
import { fieldsOf, textsIn } from '../../schemas/is-object.ts';
import type { CommandContext } from '../command-line.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import type { PipelineOptions } from '../commands/vf-pipeline.ts';

export async function openNamedPipeline(
  path: string,
  { set, tools, strictStops, startServers }: PipelineOptions & { readonly strictStops?: boolean; readonly startServers: boolean },
  context: CommandContext,
): Promise<OpenPipeline> {
  loadEnvironmentFile('.env', process.env);
  const pipeline = await openPipeline(path, {
    ...(set && { set }),
    ...(tools && { tools }),
    startServers,
    ...(strictStops && { strictStops }),
    env: process.env,
    onNotice: (notice) => context.note(`vf-pipeline: ${escapeControls(notice)}`),
    onSecret: (secret) => context.secrets.add(secret),
    signal: context.signal,
  });
  for (const secret of settingCredentials([pipeline.sources, ...pipeline.set.values()])) context.secrets.add(secret);
  return pipeline;
}

/** Notes which servers were left alone, so that nothing about them was checked. */
export function noteUnopened({ unopened, sources }: OpenPipeline, { note }: CommandContext): void {
  for (const name of unopened) {
    const source = sources[name];
    const { url, command, args } = fieldsOf(source);
    const what = typeof source === 'string' ? source : shownWords(textsIn([url ?? [command, args]])).join(' ');
    note(
      `vf-pipeline: not checked: the server ${escapeControls(name)} (${escapeControls(what)}) and what its steps take and give; if you trust it, --start-servers opens it`,
    );
  }
}

/** Notes that the package's file is meant. */
export function noteBundled(named: string, what: 'running' | 'checking', { note }: CommandContext): void {
  note(`vf-pipeline: ${named} is not here; ${what} the package's, which vf-pipeline build copies here`);
}
