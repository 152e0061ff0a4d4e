/** The part of WebAssembly that the sandbox uses. TypeScript declares it for browsers only. */
export interface SandboxMemory {
  readonly buffer: ArrayBuffer;
  /** @param pages number of 64 KiB pages to add. Returns the previous number. Throws RangeError. */
  grow(pages: number): number;
}

/** CPython, compiled; it can be sent to other threads. */
export type PythonModule = object;

interface WebAssemblyApi {
  readonly Memory: new (descriptor: { readonly initial: number; readonly maximum?: number }) => SandboxMemory;
  readonly Module: { imports(module: PythonModule): readonly { readonly module: string; readonly name: string; readonly kind: string }[] };
  readonly Instance: new (
    module: PythonModule,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
  /** Compiles in other threads. */
  compile(bytes: Uint8Array): Promise<PythonModule>;
}

export const { WebAssembly: webAssembly } = globalThis as unknown as { readonly WebAssembly: WebAssemblyApi };
