/**
 * The part of WebAssembly that the engine uses. TypeScript declares it for browsers only, and a global declaration of ours would collide with theirs, or be missing, in the
 * programs of others that import the engine's types.
 */
export interface EngineMemory {
  readonly buffer: SharedArrayBuffer;
  /** @param pages number of 64 KiB pages to add. Returns the previous number. Throws RangeError. */
  grow(pages: number): number;
}

/** Compiled code, which can be sent to other threads. */
export type KernelsModule = object;

interface WebAssemblyApi {
  readonly Memory: new (descriptor: { readonly initial: number; readonly maximum: number; readonly shared: true }) => EngineMemory;
  readonly Module: new (bytes: Uint8Array) => KernelsModule;
  readonly Instance: new (
    module: KernelsModule,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
  validate(bytes: Uint8Array): boolean;
}

export const { WebAssembly: webAssembly } = globalThis as unknown as { readonly WebAssembly: WebAssemblyApi };
