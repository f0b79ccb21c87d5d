package tenon.spring;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.ResolvableType;
import org.springframework.core.annotation.AnnotatedElementUtils;
import tenon.Child;
import tenon.Task;

/**
 * The methods with {@link TenonHandler} of all beans: also of those with a proxy, and of those that are made when they are used, because a
 * bean is asked for when a task runs.
 */
record TenonHandlers(ConfigurableListableBeanFactory beans) {
    void giveTo(Child child) {
        for (String name : beans.getBeanNamesForType(Object.class)) {
            Class<?> type = ScopedProxyUtils.isScopedTarget(name) ? null : type(name);
            if (type != null) {
                methods(type).forEach((method, annotation) -> child.handle(annotation.value(), task -> call(name, type, method, task)));
            }
        }
    }

    /** Of the bean itself, not of its proxy. */
    private Class<?> type(String name) {
        String target = ScopedProxyUtils.getTargetBeanName(name);
        return AutoProxyUtils.determineTargetClass(beans, beans.containsBeanDefinition(target) ? target : name);
    }

    private static Map<Method, TenonHandler> methods(Class<?> type) {
        return MethodIntrospector.selectMethods(type,
                (Method method) -> AnnotatedElementUtils.findMergedAnnotation(method, TenonHandler.class));
    }

    private Object call(String name, Class<?> type, Method method, Task task) throws Exception {
        Object[] arguments = new Object[method.getParameterCount()];
        for (int i = 0; i < arguments.length; i++) {
            ResolvableType parameter = ResolvableType.forMethodParameter(method, i, type);
            arguments[i] = parameter.resolve() == Task.class ? task : task.payload(parameter.getType());
        }
        Object bean = beans.getBean(name);
        Method invocable = AopUtils.selectInvocableMethod(method, bean.getClass());
        invocable.setAccessible(true);
        try {
            return invocable.invoke(bean, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw (Error) error.getCause();
        }
    }
}
