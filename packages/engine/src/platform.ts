/** What tells platforms apart; a parameter so that every combination can be tested anywhere. */
export interface Platform {
  platform: string;
  arch: string;
  /** Of a Linux with glibc; undefined with musl. */
  glibcVersion: string | undefined;
}

export function thisPlatform(): Platform {
  const report =
    process.platform === "linux" ? (process.report?.getReport() as { header?: object } | undefined) : undefined;
  const { glibcVersionRuntime } = (report?.header ?? {}) as { glibcVersionRuntime?: string };
  return { platform: process.platform, arch: process.arch, glibcVersion: glibcVersionRuntime };
}

/** The npm package that carries the prebuilt engine of a platform, such as `@stateset-agents/engine-linux-x64-gnu`. */
export function platformPackage({ platform, arch, glibcVersion }: Platform = thisPlatform()): string {
  const libc = platform === "linux" ? (glibcVersion === undefined ? "-musl" : "-gnu") : "";
  return `@stateset-agents/engine-${platform}-${arch}${libc}`;
}
