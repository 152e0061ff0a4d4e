/** The failure of an agent's program, apart from the errors of what it depends on. */
import { VfError, type VfErrorOptions } from './errors.ts';

/** An agent's program came to no answer. Never a reward of 0, unless its environment says that it is. */
export class AgentError extends VfError {
  override readonly name = 'AgentError';
  readonly reason: AgentFailure;

  constructor(message: string, options: VfErrorOptions & { readonly reason: AgentFailure }) {
    super(message, options);
    this.reason = options.reason;
  }
}

/**
 * `exit_code`: not 0. `signal`: it was killed. `no_answer`: it printed or wrote none. `no_call`: it never asked the policy. `refused`: the policy answered none of its
 * requests. `repeats`: it sent the same request again and again. `deadline`, `output`, `memory`: it passed this limit.
 */
export type AgentFailure = 'exit_code' | 'signal' | 'no_answer' | 'no_call' | 'refused' | 'repeats' | 'deadline' | 'output' | 'memory';
