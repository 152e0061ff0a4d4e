/** The files of a pipeline: `<stem>.yaml`, and in the same folder `parameter/<stem>.yaml`, or `parameter/<stem>_parameter.yaml` as UltraRAG's code names it. */
import { existsSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { readText, readTextIfPresent } from '../files/text-file.ts';
import { PipelineFileError } from './pipeline-error.ts';

/** A pipeline's text is small; a larger file is something else. */
const MAX_BYTES = 2 ** 20;

const options = (remedy: string) => ({
  maxBytes: MAX_BYTES,
  remedy,
  makeError: (message: string, { cause }: { readonly cause?: unknown }) => new PipelineFileError(message, { fault: 'file' as const, cause }),
});

/** Rejects with PipelineFileError. */
export function readPipelineFile(path: string): Promise<string> {
  return readText(path, options('name a pipeline, a YAML file with servers and pipeline'));
}

export interface ParameterFile {
  readonly path: string;
  readonly text: string;
}

/** The file that `vf-pipeline build` writes. */
export function parameterPath(pipeline: string): string {
  return join(dirname(pipeline), 'parameter', `${stem(pipeline)}.yaml`);
}

/** Null if there is none. */
export async function readParameterFile(pipeline: string): Promise<ParameterFile | null> {
  for (const name of [`${stem(pipeline)}.yaml`, `${stem(pipeline)}_parameter.yaml`]) {
    const path = join(dirname(pipeline), 'parameter', name);
    const text = await readTextOfPipeline(path);
    if (text !== null) return { path, text };
  }
  return null;
}

/** The text of a file of parameters; null if there is none. Rejects with PipelineFileError. */
export function readTextOfPipeline(path: string): Promise<string | null> {
  return readTextIfPresent(path, options('correct the file, or remove it'));
}

/** The path of a file that the pipeline names: relative to the working directory if it exists there, else relative to the pipeline's folder. */
export function besidePipeline(pipeline: string): (path: string) => string {
  return (path) => {
    if (isAbsolute(path) || existsSync(path)) return path;
    const beside = join(dirname(pipeline), path);
    return existsSync(beside) ? beside : path;
  };
}

function stem(path: string): string {
  return basename(path).replace(/\.ya?ml$/i, '');
}
