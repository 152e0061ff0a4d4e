import { ConfigError, VfError, type VfErrorOptions } from '../core/errors.ts';

/** The kinds of fault in a pipeline's files. */
export type PipelineFault = 'yaml' | 'step' | 'server' | 'tool' | 'variable' | 'parameter' | 'router' | 'loop' | 'key' | 'file';

/** A pipeline, its parameters or a file that it names cannot be used. Found before the first call. */
export class PipelineFileError extends ConfigError {
  readonly fault: PipelineFault;

  constructor(message: string, { fault, ...options }: VfErrorOptions & { readonly fault: PipelineFault }) {
    super(message, options);
    this.fault = fault;
  }
}

/**
 * `output`: a tool left out a variable that it declares. `length`: lists that belong to the same questions have unequal lengths. `state`: a router gave a
 * state that has no branch. `value`: a variable holds a value that the tool does not take. `failed`: a tool failed, or no question is left.
 */
export type PipelineFailure = 'output' | 'length' | 'state' | 'value' | 'failed';

/** A pipeline failed while it ran. Its snapshots hold every complete call, so that the run can go on from there. */
export class PipelineError extends VfError {
  override readonly name = 'PipelineError';
  readonly failure: PipelineFailure;

  constructor(message: string, { failure, ...options }: VfErrorOptions & { readonly failure: PipelineFailure }) {
    super(message, options);
    this.failure = failure;
  }
}
