/** The embedded engine in Node. */
import type { EngineOptions } from './engine-types.ts';
import { HostedEngine } from './hosted-engine.ts';
import { nodeHost } from './node-host.ts';
import { openParts } from './open-parts.ts';

export class EmbeddedEngine extends HostedEngine {
  /**
   * Rejects with EngineInputError, MemoryLimitError, EngineLostError or CancelledError; then no thread is left running.
   *
   * @example
   * const engine = await EmbeddedEngine.open({ modelPath: 'models/nano-base', threads: 2, signal });
   */
  static async open(options: EngineOptions): Promise<EmbeddedEngine> {
    return new EmbeddedEngine(await openParts(nodeHost, options));
  }
}
