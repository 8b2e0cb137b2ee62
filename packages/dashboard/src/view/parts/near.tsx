/** To what lies beside what is shown; where nothing does, the word stays, so that nothing moves. */
export function Near({ href, name, title }: { href: string | null; name: string; title: string }) {
  if (href === null) {
    return (
      <span class="button small" aria-disabled="true">
        {name}
      </span>
    );
  }
  return (
    <a class="button small" href={href} title={title}>
      {name}
    </a>
  );
}
