package tenon.spring;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import tenon.Child;
import tenon.Handler;
import tenon.Task;

/** Finds the methods with {@link TenonHandler}, also those of beans with a proxy. */
final class TenonHandlers implements BeanPostProcessor {
    private final Map<String, Handler> handlers = new TreeMap<>();

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        Class<?> type = AopUtils.getTargetClass(bean);
        Map<Method, TenonHandler> found = MethodIntrospector.selectMethods(type,
                (Method method) -> AnnotatedElementUtils.findMergedAnnotation(method, TenonHandler.class));
        found.forEach((method, annotation) -> add(annotation.value(), bean, AopUtils.selectInvocableMethod(method, bean.getClass())));
        return bean;
    }

    private void add(String kind, Object bean, Method method) {
        if (handlers.putIfAbsent(kind, task -> call(bean, method, task)) != null) {
            throw new IllegalStateException("there are two methods with @TenonHandler(\"" + kind + "\")");
        }
        method.setAccessible(true);
    }

    private static Object call(Object bean, Method method, Task task) throws Exception {
        Parameter[] parameters = method.getParameters();
        Object[] arguments = new Object[parameters.length];
        for (int i = 0; i < parameters.length; i++) {
            Class<?> type = parameters[i].getType();
            arguments[i] = type == Task.class ? task : task.payload(type);
        }
        try {
            return method.invoke(bean, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw (Error) error.getCause();
        }
    }

    void giveTo(Child child) {
        handlers.forEach(child::handle);
    }
}
