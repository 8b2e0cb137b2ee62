const warned = new Set<string>();

/**
 * A door's values as they were offered before they lived there: each warns once, when it is first used, and says where it is now.
 * They are the same values for every purpose but `===`: an instance made by one is an instance of the other.
 */
export function movedTo<T extends object>(door: string, values: T): T {
  return new Proxy({} as T, {
    get: (_, name) => warning(String(name), `has moved: import it from "${door}"`, Reflect.get(values, name) as object),
  });
}

/** A value under the name it had. */
export function renamed<T extends object>(name: string, now: string, value: T): T {
  return warning(name, `is called "${now}" now`, value);
}

function warning<T extends object>(name: string, what: string, value: T): T {
  const warn = () => {
    if (warned.has(name)) return;
    warned.add(name);
    process.emitWarning(`"${name}" ${what}. The next release drops it from here.`, {
      type: "DeprecationWarning",
      code: "STATESET_MOVED",
    });
  };
  return new Proxy(value, {
    apply(target, self, args) {
      warn();
      return Reflect.apply(target as () => unknown, self, args);
    },
    construct(target, args, made) {
      warn();
      return Reflect.construct(target as new () => object, args, made);
    },
    get(target, key) {
      warn();
      return Reflect.get(target, key);
    },
  });
}
